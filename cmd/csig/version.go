package main

import "runtime"

type versionInfo struct {
	Format  string `json:"format"`
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func buildVersion() versionInfo {
	return versionInfo{Format: "csig.version/v1", Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
}
