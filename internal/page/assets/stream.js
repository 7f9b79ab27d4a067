// The stream of the server: one for a page, with the list of jobs and one job at length.

// open calls changed(keys) after each message; pieces has what the server sent. It returns a
// function that ends the stream.
export function open(job, pieces, changed) {
  let source = null, over = false, again = 0;
  const connect = () => {
    source = new EventSource("stream" + (job ? "?job=" + encodeURIComponent(job) : ""));
    let first = true;
    source.onmessage = (e) => {
      const m = JSON.parse(e.data);
      if (first) { // what was seen before may be gone
        for (const key of Object.keys(pieces.set)) delete pieces.set[key];
        first = false;
      }
      pieces.skew = m.now - Date.now();
      pieces.problem = m.problem;
      pieces.live = true;
      const keys = Object.keys(m.set);
      for (const key of keys) {
        if (m.set[key] === null) delete pieces.set[key];
        else pieces.set[key] = m.set[key];
      }
      changed(keys);
    };
    source.onerror = () => {
      pieces.live = false;
      changed([]);
      if (source.readyState === EventSource.CLOSED && !over) {
        clearTimeout(again);
        again = setTimeout(connect, 500);
      }
      first = true;
    };
  };
  connect();
  return () => {
    over = true;
    clearTimeout(again);
    source.close();
  };
}
