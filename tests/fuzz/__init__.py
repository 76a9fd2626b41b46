"""Whatever reads what strangers sent, given nonsense and near-nonsense: it answers, or refuses by an error of ours."""
