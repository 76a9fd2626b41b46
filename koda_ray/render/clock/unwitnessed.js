// In place of the witness where nobody asks what frames are drawn from, and in the page's own frames.
let kodaWitness = { arm() {}, next() {}, shown() {}, begin() {}, said: () => null, ours: (run) => run() };
