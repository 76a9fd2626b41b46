// In place of what goes ahead where each frame is made when it is asked for.
const kodaAhead = { begin() {}, may: () => false, follow() {}, turn: async () => {} };
