// Package cli is one session with a switch's command line, over SSH: scrapligo
// (github.com/scrapli/scrapligo v1.4) knows the platforms' prompts and modes, protocol/ssh
// logs in and checks host keys. What the device sends is bounded in bytes and time and
// comes back as clean lines. A session that lost its place, by a timeout for example, is
// closed and never used again.
package cli
