// Package rollout carries out plans on devices: wave by wave, with a journal from
// which an interrupted run is continued or undone, a health gate after each wave,
// and locks so that one run at a time changes a device. Off is the emergency stop,
// which needs neither plan nor journal.
package rollout
