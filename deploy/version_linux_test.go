package deploy

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

func debianVersion(t *testing.T, version string) string {
	t.Helper()
	out := run(t, []string{"SOURCE_DATE_EPOCH=1764000000"}, "./debian/debian-version", version)
	if !regexp.MustCompile(`^[0-9][A-Za-z0-9.+~]*$`).MatchString(out) {
		t.Errorf("%s is %q as a package's version", version, out)
	}
	return out
}

// TestVersionsSortAsTheyCame: dpkg takes the later of two versions for the newer one. A commit without a tag
// is below every release.
func TestVersionsSortAsTheyCame(t *testing.T) {
	for _, c := range []struct{ older, newer string }{
		{"168c9db0", "v0.0.1"},
		{"168c9db0-dirty", "v1.0.0-rc1"},
		{"9999999", "v0.0.1"},
		{"unknown", "v0.0.1"},
		{"v0.0.0-20261129205737-168c9db01234", "v0.1.0-rc1"},
		{"v0.0.0-20261129205737-f68c9db01234", "v0.0.0-20261129205738-168c9db01234"},
		{"v1.0.0-rc1", "v1.0.0-rc1-3-g168c9db0"},
		{"v1.0.0-rc1-3-g168c9db0", "v1.0.0-rc2"},
		{"v1.0.0-rc2", "v1.0.0"},
		{"v1.0.0", "v1.0.0-dirty"},
		{"v1.0.0", "v1.0.0-9-gf68c9db0"},
		{"v1.0.0-9-gf68c9db0", "v1.0.0-10-g168c9db0"},
		{"v1.0.0-10-g168c9db0-dirty", "v1.0.1-rc1"},
		{"v1.9.0", "v1.10.0"},
	} {
		older, newer := debianVersion(t, c.older), debianVersion(t, c.newer)
		if err := exec.Command("dpkg", "--compare-versions", older, "lt", newer).Run(); err != nil {
			t.Errorf("%s of %s is not older than %s of %s: %v", older, c.older, newer, c.newer, err)
		}
	}
}

// TestVersionOfACheckout makes a repository, with commits before, at and after a tag.
func TestVersionOfACheckout(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		run(t, []string{"GIT_COMMITTER_DATE=2026-11-29T21:00:00+01:00", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"},
			"git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@example.net"}, args...)...)
	}
	run(t, nil, "install", "-D", "git-version", dir+"/deploy/git-version")
	git("init", "--quiet")
	git("add", ".")
	want := func(pattern string) {
		t.Helper()
		if out := strings.TrimSpace(run(t, nil, dir+"/deploy/git-version")); !regexp.MustCompile("^" + pattern + "$").MatchString(out) {
			t.Errorf("the version is %s, want %s", out, pattern)
		}
	}
	git("commit", "--quiet", "--message=one")
	want(`v0\.0\.0-20261129200000-[0-9a-f]{12}`)
	git("tag", "nightly")
	want(`v0\.0\.0-20261129200000-[0-9a-f]{12}`)
	git("tag", "v1.2.0")
	want(`v1\.2\.0`)
	git("commit", "--quiet", "--message=two", "--allow-empty")
	want(`v1\.2\.0-1-g[0-9a-f]+`)
	run(t, nil, "truncate", "--size=0", dir+"/deploy/git-version.copy")
	git("add", ".")
	want(`v1\.2\.0-1-g[0-9a-f]+-dirty`)
	git("tag", "--delete", "v1.2.0")
	want(`v0\.0\.0-20261129200000-[0-9a-f]{12}-dirty`)
}
