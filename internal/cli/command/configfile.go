package command

// This file reads elastic.yaml: a mapping from names of settings to their values. It does not know
// which settings exist.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ConfigFileName is the name of the file, in the working directory.
const ConfigFileName = "elastic.yaml"

// MaxConfigFile is the largest size of a file, in bytes.
const MaxConfigFile = 1 << 20

// ConfigEntry is one setting in the file.
type ConfigEntry struct {
	Key   string
	Value string // the elements of a list are joined by commas
	Line  int    // of the key, from 1
}

// ConfigError means that a file is not a mapping from names to values.
type ConfigError struct {
	Line int // 0: unknown
	Text string
}

func (e *ConfigError) Error() string {
	if e.Line == 0 {
		return ConfigFileName + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d: %s", ConfigFileName, e.Line, e.Text)
}

// ParseConfig returns the settings of a file, in the order of the file. An empty file has none. The error
// is an *Error.
//
// Values are the text in the file: 2:4 is text, and not a number as in YAML 1.1.
func ParseConfig(text []byte) ([]ConfigEntry, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntax(err)
	}
	var second yaml.Node
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, &ConfigError{Line: second.Line, Text: "only one document is read"}
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, &ConfigError{root.Line, "lines of the form NAME: VALUE are expected"}
	}
	return entries(root)
}

// syntax converts an error of the parser, whose text contains the line.
func syntax(err error) *ConfigError {
	e := &ConfigError{Text: strings.TrimPrefix(err.Error(), "yaml: ")}
	if n, _ := fmt.Sscanf(e.Text, "line %d:", &e.Line); n == 1 {
		_, e.Text, _ = strings.Cut(e.Text, ": ")
	}
	return e
}

func entries(root *yaml.Node) ([]ConfigEntry, error) {
	var all []ConfigEntry
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, node := root.Content[i], root.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return nil, &ConfigError{key.Line, "the name of a setting is a word"}
		}
		value, err := text(key, node)
		if err != nil {
			return nil, err
		}
		all = append(all, ConfigEntry{Key: key.Value, Value: value, Line: key.Line})
	}
	return all, nil
}

// text returns the value of a setting: the text of a scalar, or the elements of a list.
func text(key, node *yaml.Node) (string, error) {
	if node.Kind != yaml.SequenceNode {
		return scalar(key, node)
	}
	var all []string
	for _, element := range node.Content {
		value, err := scalar(key, element)
		if err != nil {
			return "", err
		}
		all = append(all, value)
	}
	return strings.Join(all, ","), nil
}

func scalar(key, node *yaml.Node) (string, error) {
	switch {
	case node.Kind != yaml.ScalarNode:
		return "", &ConfigError{node.Line, fmt.Sprintf("%s: a value or a list of values is expected", key.Value)}
	case node.Tag == "!!null":
		return "", &ConfigError{node.Line, key.Value + " has no value"}
	}
	return node.Value, nil
}
