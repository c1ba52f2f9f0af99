package sonic

import "testing"

// TestLongWhole is all of the tests that do some of it otherwise: of every release, from every setup to
// every setup, of each of the 65,536 tags.
func TestLongWhole(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"Aggregate":         TestAggregate,
		"AggregateJoined":   TestAggregateJoined,
		"AggregateRandom":   TestAggregateRandom,
		"DeletionRefused":   TestDeletionRefused,
		"EntriesGone":       TestEntriesGone,
		"EveryRow":          TestEveryRow,
		"FirstTable":        TestFirstTable,
		"Full":              TestFull,
		"FullWorstFirst":    TestFullWorstFirst,
		"Hostile":           TestHostile,
		"LayoutChange":      TestLayoutChange,
		"Neighbour":         TestNeighbour,
		"OrchagentRestart":  TestOrchagentRestart,
		"PortGoes":          TestPortGoes,
		"RedisRestart":      TestRedisRestart,
		"Refusal":           TestRefusal,
		"Repair":            TestRepair,
		"RowsFarBehind":     TestRowsFarBehind,
		"SetupChanges":      TestSetupChanges,
		"SetupsInAnyOrder":  TestSetupsInAnyOrder,
		"Silence":           TestSilence,
		"Starting":          TestStarting,
		"TakeBackRefused":   TestTakeBackRefused,
		"UntrueNote":        TestUntrueNote,
		"WarmRestartUnseen": TestWarmRestartUnseen,
	} {
		t.Run(name, test)
	}
}
