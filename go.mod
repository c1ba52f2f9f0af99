module github.com/csig-agent/csig

go 1.26.8
