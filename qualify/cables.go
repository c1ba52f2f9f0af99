package qualify

import (
	"context"
	"fmt"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// connected is the error of a card without a carrier.
func (b *Bench) connected() error {
	for _, p := range b.Ports {
		if p.Carrier == nil {
			continue
		}
		up, _, err := p.Carrier()
		switch {
		case err != nil:
			return fmt.Errorf("card %s: reading its carrier: %w", p.Card, err)
		case !up:
			return fmt.Errorf("card %s has no carrier: is its cable in, and is port %s of the switch switched on? (ip link show %s)", p.Card, p.Name, p.Card)
		}
	}
	return nil
}

// carriers is how often the carrier of each card changed.
func (b *Bench) carriers() ([]uint32, error) {
	list := make([]uint32, len(b.Ports))
	for i, p := range b.Ports {
		if p.Carrier == nil {
			continue
		}
		var err error
		if _, list[i], err = p.Carrier(); err != nil {
			return nil, fmt.Errorf("card %s: reading its carrier: %w", p.Card, err)
		}
	}
	return list, nil
}

// sameLinks is the error of a card whose carrier changed since: frames that were lost then are
// the link's fault. A card whose link the experiment itself took down is left out.
func (t *Trial) sameLinks(before []uint32) error {
	now, err := t.carriers()
	if err != nil {
		return err
	}
	for i, p := range t.Ports {
		if n := now[i] - before[i]; n > 0 && !p.taken {
			return Cannot("the carrier of card %s, at port %s, changed %d times meanwhile: look at its cable and its port", p.Card, p.Name, n)
		}
	}
	return nil
}

// swapped is the error of a second port that is not at the other end of its card: the
// driver has it remove the tag, and another card gets the frames without it. Where the
// driver cannot do that, nothing is said.
func (r *runner) swapped(ctx context.Context) error {
	if r.looked {
		return r.crossed
	}
	r.looked = true
	t := &Trial{Bench: r.Bench, runner: r}
	var dev inventory.Device
	for i, p := range r.Ports {
		port := inventory.Port{Name: p.Name, Action: vlanrules.Passthrough}
		if i == 1 {
			port.Action = vlanrules.Strip
		}
		dev.Ports = append(dev.Ports, port)
	}
	without := make([]bool, len(r.Ports)) // the card gets frames without their tag
	err := t.Apply(ctx, vendors.SetupOf(r.Profile, r.Policy, &dev))
	for to := 0; err == nil && to < len(r.Ports); to++ {
		from := 0
		if to == 0 {
			from = 1
		}
		var seen []Seen
		if seen, err = t.Exchange(ctx, from, []Frame{{To: to, Tags: VLAN(r.Profile.TPID, 0x2f7e)}}); err == nil {
			got := seen[0].At(to)
			without[to] = got != nil && len(got) < len(seen[0].Sent)
		}
	}
	for i, is := range without {
		if err == nil && is && i != 1 && !without[1] {
			r.crossed = Cannot("are the cables swapped? what %s does with frames is seen at card %s, and not at %s", r.Ports[1].Name, r.Ports[i].Card, r.Ports[1].Card)
		}
	}
	return r.crossed
}
