package integration

import "testing"

// The tests that take longest are in the first of these files: go test starts them in the files' order, and others run
// beside them until they end.

func TestLongControllerFaults(t *testing.T) { t.Parallel(); controllerFaults(t) }

func TestLongLegacyWay(t *testing.T) { t.Parallel(); legacyWay(t) }

func TestLongMesh(t *testing.T) { t.Parallel(); meshOfSixteen(t) }

func TestLongEveryPlatform(t *testing.T) { t.Parallel(); allPlatforms(t) }

func TestLongKilledAtEveryStep(t *testing.T) { t.Parallel(); killedAtEveryStep(t) }
