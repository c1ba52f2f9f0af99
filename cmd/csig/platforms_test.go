package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/csig-agent/csig/vendors"
)

func TestPlatformsPage(t *testing.T) {
	found, err := knownPlatforms(nil)
	if err != nil {
		t.Fatal(err)
	}
	const page = "../../docs/platforms.md"
	got := platformsMarkdown(found)
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil || got != string(want) {
		t.Errorf("docs/platforms.md is not what csig platforms --markdown prints (%v): go test ./cmd/csig -run TestPlatformsPage -update", err)
	}
}

// The shipped examples are valid, their platforms included.
func TestExamplesAreValid(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		if out, err := csig("inventory", "check", "-i", file); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// Whatever is stated of a platform is printed, and fits the terminal.
func TestPlatformsPrintEverything(t *testing.T) {
	p := platformResult{Platform: "x", Title: "X"}
	v := reflect.ValueOf(&p.Traits).Elem()
	for i := range v.NumField() {
		source := vendors.Source{Mark: vendors.Read, From: "page " + v.Type().Field(i).Name}
		if v.Field(i).Type() == reflect.TypeFor[vendors.Source]() {
			v.Field(i).Set(reflect.ValueOf(source))
		} else {
			v.Field(i).FieldByName("Source").Set(reflect.ValueOf(source))
		}
	}
	text := platformText(&p, 1000)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; strings.Count(text, "page "+name+"\n") != 1 {
			t.Errorf("%s is not printed:\n%s", name, text)
		}
	}
	found, err := knownPlatforms(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(platformsText(found), "\n") {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for i := range found.Platforms {
		for _, line := range strings.Split(platformText(&found.Platforms[i], 80), "\n") {
			if n := utf8.RuneCountInString(line); n > 80 && strings.Count(strings.TrimSpace(line), " ") > 0 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
	object, err := json.Marshal(found)
	if err != nil || strings.Contains(string(object), "null") {
		t.Errorf("%v: the JSON has a null in it: %s", err, object)
	}
}
