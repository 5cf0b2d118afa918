"""How much a drafter speeds decoding up: tokens per round, what a round costs, a range and its basis. Pure."""
