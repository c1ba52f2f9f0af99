// Package vrp drives switches of Huawei over their command line: those of the S series,
// which run VRP 5 (platform vrp), and CloudEngine, which run VRP 8 or YunShan OS (platform
// cloudengine). A traffic policy at the outbound direction of a port is the table: a
// classifier matches the 802.1p priority and a range of VLAN IDs of the CSIG tag, and its
// behavior gives it another VLAN ID.
//
// A change of the signal binds the new classifier beside the old one, reads from the switch
// whether the policy is in hardware, and then takes the old one out. A frame that both match
// may have either's VLAN ID: which comes first in hardware does not matter. On CloudEngine
// each half is one commit. No change is ever saved.
//
// What Huawei's texts say, and where:
//
//   - classifier behavior: dynamically updating the classifiers and behaviors of an applied
//     policy makes it ineffective for a short time, and a policy has at most 256 pairs;
//     traffic policy: on S5720EI, S6720EI and S6720S-EI classifiers at the outbound direction
//     are matched in the order auto whatever is configured; traffic classifier, traffic
//     behavior: at most 512 and 256; display traffic-policy applied-record: success or fail by
//     slot (S1720, S2700, S5700, and S6720 V200R011C10 Command Reference, 15.1, issue 14).
//   - if-match vlan-id, if-match 8021p, qinq protocol (0x0600 to 0xFFFF, the outer tag), remark
//     cvlan-id, traffic-remark outbound acl … vlan-id (S2720, S5700, and S6700 V200R019C10,
//     http://a10.tagan.ru/huawei/dc/if-match_vlan-id.html and its neighbors).
//   - classifier behavior (precedence 0 to 65535, no two bindings with the same), if-match vlan,
//     vlan-mapping (traffic behavior view), traffic-policy atomic-update-mode (new rules are
//     delivered before the old are deleted, and a policy that cannot be delivered again stays
//     in force as it was), qinq protocol (0x8100, 0x9100 or 0x88a8, the outer tag alone), commit
//     trial, display configuration trial status (CloudEngine 8800 and 6800 V300R023C00 Command
//     Reference and Configuration Guide,
//     https://github.com/WheaterW/INTA-project/tree/9308062d7ec56ac434ae2df6f1c140d8d4440f17/nassim-main/corpus/hw/hw_CE6800_V300R023C00).
package vrp
