// In place of what goes ahead where each frame is made when it is asked for, and in the page's own frames.
let kodaAhead = { begin() {}, may: () => false, follow() {}, turn: async () => {} };
