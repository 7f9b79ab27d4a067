package launch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Record is a file that a start writes into the log directory.
type Record struct {
	Name    string
	Content []byte
	Append  bool // append to the file of earlier starts; else replace it
}

func backupFile(rank int) string { return fmt.Sprintf("backup_env.%d.json", rank) }

// Records returns the files of one start that Paddle and its tools read: the endpoints of all
// workers, and the variables of each worker of this node. backup_env.R.json has lists that are too
// long for a variable.
func Records(in Inputs) ([]Record, error) {
	var all []Record
	if in.Team != nil {
		return taskRecords(in), nil
	}
	if len(in.Endpoints) > 0 {
		all = append(all, Record{Name: "endpoints.log", Content: []byte("PADDLE_TRAINER_ENDPOINTS: \n" +
			strings.Join(in.Endpoints, "\n") + "\n")})
	}
	for local, given := range Given(in) {
		sorted := slices.Sorted(slices.Values(given))
		all = append(all, Record{Name: fmt.Sprintf("envlog.%d", local),
			Content: []byte(strings.Join(sorted, "\n") + "\n"), Append: true})
		vars := map[string]string{}
		for _, kv := range given {
			name, value, _ := strings.Cut(kv, "=")
			vars[name] = value
		}
		for _, name := range []string{"PADDLE_TRAINER_ENDPOINTS", "DISTRIBUTED_TRAINER_ENDPOINTS"} {
			if list := strings.Join(in.Endpoints, ","); list != "" {
				vars[name] = list
			}
		}
		text, err := json.MarshalIndent(vars, "", "    ")
		if err != nil {
			return nil, fmt.Errorf("record the environment of worker %d: %w", local, err)
		}
		all = append(all, Record{Name: backupFile(in.FirstRank + local), Content: append(text, '\n')})
	}
	return all, nil
}

// taskRecords returns the files of a start with parameter servers. envlog.N has the environment of
// each process of this node.
func taskRecords(in Inputs) []Record {
	all := []Record{{Name: "endpoints.log", Content: []byte(endpointsFile(in.Team))}}
	for local, given := range Given(in) {
		sorted := slices.Sorted(slices.Values(given))
		all = append(all, Record{Name: fmt.Sprintf("envlog.%d", local),
			Content: []byte("# " + in.Tasks[local].String() + "\n" + strings.Join(sorted, "\n") + "\n"),
			Append:  true})
	}
	return all
}
