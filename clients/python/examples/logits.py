"""Keep words from being said, by their logits. Usage: logits.py [HOST:PORT]"""

import sys

import tokenloom as og

model = og.Model(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051")
tokenizer = og.Tokenizer(model)

params = og.GeneratorParams(model)
params.set_search_options(max_length=40)

generator = og.Generator(model, params)
generator.append_tokens(tokenizer.encode("The story of"))

banned = [tokenizer.to_token_id("Ġthe"), tokenizer.to_token_id("Ġand")]
while not generator.is_done():
    logits = generator.get_logits()
    logits[:, banned] = -float("inf")
    generator.set_logits(logits)
    generator.generate_next_token()

print(tokenizer.decode(generator.get_sequence(0)))
