package tokenloom_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runExample runs an example as the program it is, and gives what it printed.
func runExample(t *testing.T, name, input string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	if output, err := exec.Command("go", "build", "-o", program, "./examples/"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	command := exec.CommandContext(t.Context(), program, target)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return string(output)
}

func TestExamples(t *testing.T) {
	for _, example := range []struct {
		name, input string
		expected    map[string]int // How often each of these is printed.
	}{
		{"chat", "hi\nand then?\n\n", map[string]int{"You: ": 3, "Model: ": 2}},
		{"batch", "", map[string]int{"The capital of France is|": 1, "def add(a, b):|": 1}},
		{"rewind", "", map[string]int{"0:": 1, "1:": 1, "2:": 1}},
		{"logits", "", map[string]int{"without the likeliest:": 1, "without repetition:": 1}},
	} {
		t.Run(example.name, func(t *testing.T) {
			output := runExample(t, example.name, example.input)
			for text, count := range example.expected {
				if strings.Count(output, text) < count {
					t.Errorf("%q is missing in:\n%s", text, output)
				}
			}
		})
	}
}
