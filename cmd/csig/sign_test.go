package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/csig-agent/csig/device"
	"github.com/csig-agent/csig/plans/rollout"
)

// keygen runs the real ssh-keygen.
func keygen(t *testing.T, stdin []byte, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("ssh-keygen", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%v (Debian: apt-get install openssh-client)", err)
	}
	return string(out), err
}

// signedPlan is the plan of planned, signed with a key, and the text of it.
func signedPlan(t *testing.T, key string) []byte {
	t.Helper()
	p, _ := planned(t)
	s, conn, err := openSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := signPlan("a.plan", p, s); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("a.plan")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What csig signs ssh-keygen verifies, and the other way round, with every kind
// of key.
func TestSignaturesOfOpenSSH(t *testing.T) {
	for name, args := range map[string][]string{
		"ed25519": {"-t", "ed25519"}, "rsa": {"-t", "rsa", "-b", "2048"}, "ecdsa": {"-t", "ecdsa", "-b", "384"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if out, err := keygen(t, nil, append(args, "-N", "", "-f", "key", "-C", "test")...); err != nil {
				t.Fatal(out)
			}
			public, err := os.ReadFile("key.pub")
			if err != nil {
				t.Fatal(err)
			}
			put(t, "allowed", "# who may\n\"alice@example.net,bob\" namespaces=\"file,csig-*\" "+string(public))
			text := signedPlan(t, "key")
			if out, err := keygen(t, text, "-Y", "verify", "-f", "allowed", "-I", "alice@example.net", "-n", signatureNamespace, "-s", "a.plan.sig"); err != nil {
				t.Errorf("ssh-keygen does not verify what csig signed: %s", out)
			}
			if err := os.Remove("a.plan.sig"); err != nil {
				t.Fatal(err)
			}
			if out, err := keygen(t, nil, "-Y", "sign", "-f", "key", "-n", signatureNamespace, "a.plan"); err != nil {
				t.Fatal(out)
			}
			armored, err := os.ReadFile("a.plan.sig")
			if err != nil {
				t.Fatal(err)
			}
			who, err := verifySignature("allowed", text, armored, time.Now())
			if err != nil || !strings.HasPrefix(who, "alice@example.net,bob (") || !strings.Contains(who, "SHA256:") {
				t.Errorf("csig does not verify what ssh-keygen signed: %q, %v", who, err)
			}
		})
	}
}

// Only a plan with a permitted signer is applied.
func TestVerify(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"key", "other"} {
		if out, err := keygen(t, nil, "-t", "ed25519", "-N", "", "-f", name, "-C", "test"); err != nil {
			t.Fatal(out)
		}
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	text := signedPlan(t, "key")
	signature := read("a.plan.sig")
	key, other := read("key.pub"), read("other.pub")
	put(t, "copy.plan", string(text))
	if out, err := keygen(t, nil, "-Y", "sign", "-f", "key", "-n", "file", "copy.plan"); err != nil {
		t.Fatal(out)
	}
	for name, tc := range map[string]struct{ allowed, signature, want string }{
		"signed":              {"alice " + key, signature, ""},
		"among others":        {"bob " + other + "alice " + key, signature, ""},
		"second line":         {"alice namespaces=\"git\" " + key + "alice " + key, signature, ""},
		"another key":         {"bob " + other, signature, "does not allow ssh-ed25519 SHA256:"},
		"unknown":             {"", signature, "no line of it has this key"},
		"another namespace":   {"alice " + key, read("copy.plan.sig"), `namespace "file", want csig-plan`},
		"not for plans":       {"alice namespaces=\"git,file\" " + key, signature, "namespaces git,file alone"},
		"for all but plans":   {"alice namespaces=\"*,!csig-plan\" " + key, signature, "alone"},
		"too late":            {"alice valid-before=\"20200101\" " + key, signature, "it was valid before 2020-01-01T00:00:00"},
		"too early":           {"alice valid-after=\"29990101120000Z\" " + key, signature, "it is valid after 2999-01-01T12:00:00Z"},
		"in time":             {"alice valid-after=\"20200101\",valid-before=\"299901011200Z\" " + key, signature, ""},
		"an authority":        {"alice cert-authority " + key, signature, "certificate"},
		"an unknown option":   {"alice no-touch " + key, signature, `line 1: unknown option "no-touch"`},
		"no time":             {"alice valid-before=\"soon\" " + key, signature, "YYYYMMDD"},
		"no allowed signers":  {key, signature, "line 1: want PRINCIPALS"},
		"no signature":        {"alice " + key, "-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----\n", "not a signature of SSH"},
		"something else":      {"alice " + key, "hello", "not a signature of SSH"},
		"of another document": {"alice " + key, string(must(signatureOf(t, "key", "another"))), "the signature is not of this plan"},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, "allowed", tc.allowed)
			who, err := verifySignature("allowed", text, []byte(tc.signature), time.Now())
			if tc.want == "" && (err != nil || !strings.HasPrefix(who, "alice (ssh-ed25519 SHA256:")) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%q, %v, want %q", who, err, tc.want)
			}
		})
	}

	// By the commands: the plan, and what the journal keeps of it.
	put(t, "allowed", "alice "+key)
	put(t, "others", "bob "+other)
	put(t, "a.plan.sig", signature)
	fleet := must(device.LoadFleet("fleet.yaml"))
	release, err := rollout.LockDevices(fleet, []string{"s1"}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if out, err := call(t, "apply", "a.plan", "--verify", "allowed"); !strings.HasPrefix(out, "Signed by alice (ssh-ed25519 SHA256:") || err == nil || !strings.Contains(err.Error(), "is running on device s1") {
		t.Errorf("signed: %q, %v", out, err)
	}
	if out, err := call(t, "apply", "a.plan", "--verify", "others"); out != "" || err == nil || !strings.Contains(err.Error(), "others does not allow") {
		t.Errorf("signed by another: %q, %v", out, err)
	}
	put(t, "b.plan", string(text))
	if _, err := call(t, "apply", "b.plan", "--verify", "allowed"); err == nil || !strings.Contains(err.Error(), "b.plan.sig") || !strings.Contains(err.Error(), "--sign KEY") {
		t.Errorf("not signed: %v", err)
	}
	for _, signed := range []bool{true, false} {
		p := must(readPlan("a.plan"))
		if signed {
			p.Signature = signature
		}
		name := map[bool]string{true: "signed.journal", false: "unsigned.journal"}[signed]
		_ = must(rollout.CreateJournal(name, "test", p)).Close()
		for _, command := range [][]string{{"apply", "--resume", name}, {"rollback", name}} {
			out, err := call(t, append(command, "--verify", "allowed")...)
			if signed && !strings.HasPrefix(out, "Signed by alice") || !signed && (err == nil || !strings.Contains(err.Error(), "has no signature of its plan")) {
				t.Errorf("%v: %q, %v", command, out, err)
			}
			if _, err := call(t, append(command, "--verify", "others")...); err == nil || strings.Contains(err.Error(), "at work") {
				t.Errorf("%v, by another: %v", command, err)
			}
		}
	}
	if err := os.Chmod("allowed", 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, "apply", "a.plan", "--verify", "allowed"); err == nil || !strings.Contains(err.Error(), "allowed is not used: others may write") {
		t.Errorf("a list that others write: %v", err)
	}
}

// signatureOf is a signature of another text.
func signatureOf(t *testing.T, key, text string) ([]byte, error) {
	t.Helper()
	s, _, err := openSigner(key)
	if err != nil {
		return nil, err
	}
	return signature(s, []byte(text))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A key that is encrypted, or not there, comes from the SSH agent.
func TestSignWithAgent(t *testing.T) {
	t.Chdir(t.TempDir())
	if out, err := keygen(t, nil, "-t", "rsa", "-b", "2048", "-a", "1", "-N", "secret", "-f", "key", "-C", "test"); err != nil {
		t.Fatal(out)
	}
	private := must(ssh.ParseRawPrivateKeyWithPassphrase(must(os.ReadFile("key")), []byte("secret")))
	t.Setenv("SSH_AUTH_SOCK", "")
	for file, want := range map[string]string{"key": "it is encrypted", "key.pub": "it is a public key", "gone": "no such file"} {
		if _, _, err := openSigner(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s without an agent: %v", file, err)
		}
	}
	keyring := agent.NewKeyring()
	if err := keyring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	ln := must(net.Listen("unix", "agent.sock"))
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keyring, conn) }()
		}
	}()
	t.Setenv("SSH_AUTH_SOCK", "agent.sock")
	put(t, "allowed", "alice "+string(must(os.ReadFile("key.pub"))))
	for _, file := range []string{"key", "key.pub"} {
		s, conn, err := openSigner(file)
		if err != nil {
			t.Fatal(err)
		}
		armored := must(signature(s, []byte("text")))
		conn.Close()
		if who, err := verifySignature("allowed", []byte("text"), armored, time.Now()); err != nil {
			t.Errorf("%s: %s, %v", file, who, err)
		}
	}
}
