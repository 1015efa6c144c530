/** How many characters a client receives: an answer that is cut off is billed by these. */
import { type Fields, isObject, lengthOf } from '../../core/json.ts';

/** The characters of a block, either whole or as it starts in a stream. */
export function charactersOfBlock(block: Fields): number {
  const { type, text, thinking, data, name, input } = block;
  if (type === 'text') return lengthOf(text);
  if (type === 'thinking') return lengthOf(thinking);
  if (type === 'redacted_thinking') return lengthOf(data);
  // The model writes the input of the provider's own tools, too.
  const asked = isObject(input) && Object.keys(input).length > 0 ? JSON.stringify(input) : '';
  return lengthOf(name) + asked.length;
}

export function charactersOfDelta(delta: unknown): number {
  if (!isObject(delta)) return 0;
  const { text, thinking, partial_json: json } = delta;
  return lengthOf(text) + lengthOf(thinking) + lengthOf(json);
}
