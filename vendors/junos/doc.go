// Package junos sets up switches and routers with Junos over their command line: the TPIDs of
// ports (ethernet-switch-profile tag-protocol-id), MTU, read-back, undo. A change is made in an
// exclusive session, committed on trial, read back over a second connection and confirmed.
//
// Texts: the statement, its values and hierarchy levels
// (https://www.juniper.net/documentation/us/en/software/junos/cli-reference/topics/ref/statement/tag-protocol-id-edit-interfaces-ethernet-switch-profile.html);
// commit confirmed, and its answers
// (https://www.juniper.net/documentation/us/en/software/junos/cli/topics/ref/command/commit.html), which a private
// copy of the configuration does not have (JUNOScript API Guide, Committing the Candidate
// Configuration Only After Confirmation); "rollback pending" in `show system commit` (commands run on
// vJunos-switch 23.2R1.14 and cJunosEvolved 26.2R1.7: https://github.com/ArchRuger/CLAB-BACKUP-WORKER-v2,
// clab-backup-ui/app/restore_junos.py); apply-macro as a place for data that has no
// operational impact (Junos OS Automation, Other Ways to Use Macros).
package junos
