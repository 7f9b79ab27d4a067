package command

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/internal/regular"
)

// FileName is the name of the settings file in the working directory.
const FileName = ConfigFileName

// FileUse says which flags of a command elastic.yaml can set.
type FileUse int

const (
	// FileVariables: the flags that can be set by an environment variable.
	FileVariables FileUse = iota
	// FileAll: all flags except those marked Once.
	FileAll
	// FileNone: none; the file is not read.
	FileNone
)

func (f *Flag) inFile(use FileUse) bool {
	return use == FileAll && !f.Once || use == FileVariables && len(f.Env) > 0
}

// readFile reads elastic.yaml of the working directory, if it exists. Its keys are the flags of all
// commands with FileAll, in any spelling. An unknown key is an error for every command that reads the
// file.
func (c *Call) readFile(table []Command) error {
	if c.Command.File == FileNone {
		return nil
	}
	text, err := fileText()
	if err != nil || text == nil {
		return err
	}
	entries, err := ParseConfig(text)
	if err != nil {
		return problem.New(problem.Usage, "%v", err).Of(err).
			Cure("lines of the form np: 2; elastic run --help names the settings")
	}
	known := fileSpelling(table)
	c.file = map[string]Setting{}
	for _, e := range entries {
		if err := c.take(e, known); err != nil {
			return err
		}
	}
	return nil
}

// fileSpelling maps every spelling of a flag that elastic.yaml can have.
func fileSpelling(table []Command) spelling {
	var flags []Flag
	for _, c := range table {
		if c.File == FileAll {
			flags = append(flags,
				slices.DeleteFunc(c.All(), func(f Flag) bool { return f.Once })...)
		}
	}
	return spell(flags)
}

// take stores one entry of the file.
func (c *Call) take(e ConfigEntry, known spelling) error {
	origin := ConfigFileName + ":" + strconv.Itoa(e.Line) + ": " + e.Key
	name := strings.ReplaceAll(e.Key, "_", "-")
	f := known[name]
	switch {
	case f == nil && spell(Unused())[name] != nil:
		if c.Command.File == FileAll {
			c.Unused = append(c.Unused, origin)
		}
		return nil
	case f == nil:
		return unknownKey(origin, name, known)
	}
	s := Setting{Name: f.Name, Text: e.Value, Origin: origin, Given: true, From: FromFile}
	if other, twice := c.file[f.Name]; twice {
		return problem.New(problem.Usage, "%s is given twice", origin).
			Because("it is the same as %s", other.Origin).Cure("leave one of them out")
	}
	if _, err := strconv.ParseBool(e.Value); err != nil && f.Kind == Boolean {
		return s.Refuse("true or false")
	}
	c.file[f.Name] = s
	return nil
}

func unknownKey(origin, name string, known spelling) *problem.Error {
	e := problem.New(problem.Usage, "%s: there is no such setting", origin).
		Cure("elastic run --help names the settings")
	if g, ok := removed()[name]; ok {
		return e.Because("%s", g.why).Cure("%s", g.fix)
	}
	if near := known.nearest(name); near != "" {
		e.Cure("did you mean %s?", near)
	}
	return e
}

// FromFile returns the sorted names of the settings that elastic.yaml sets for this command.
func (c *Call) FromFile() (names []string) {
	for _, f := range c.Command.All() {
		if s := c.Setting(f.Name); s.From == FromFile {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names
}

// fileText returns the content of elastic.yaml, or nil if there is none.
func fileText() ([]byte, error) {
	info, err := os.Stat(ConfigFileName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	refused := problem.New(problem.Usage, "%s cannot be read", FileName).
		Cure("make it a readable file, or rename it")
	switch {
	case err != nil:
		return nil, refused.Because("%v", err).Of(err)
	case !info.Mode().IsRegular():
		return nil, refused.Because("it is no regular file")
	case info.Size() > MaxConfigFile:
		return nil, refused.Because("it has %d bytes; the limit is %d", info.Size(), MaxConfigFile)
	}
	f, err := regular.Open(ConfigFileName)
	if err != nil {
		return nil, refused.Because("%v", err).Of(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxConfigFile))
	if err != nil {
		return nil, refused.Because("%v", err).Of(err)
	}
	return text, nil
}

// nearest returns the spelling closest to name, else the only spelling that starts with name, else
// "".
func (s spelling) nearest(name string) string {
	var names, longer []string
	for n := range s {
		if len(n) > 1 {
			names = append(names, n)
		}
		if len(name) > 2 && strings.HasPrefix(n, name) {
			longer = append(longer, n)
		}
	}
	slices.Sort(names)
	if near := phrase.Nearest(name, names); near != "" || len(longer) != 1 {
		return near
	}
	return longer[0]
}
