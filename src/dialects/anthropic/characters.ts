/** Characters that a client receives: what a cut answer is billed by. */
import { type Fields, isObject, lengthOf } from '../../core/json.ts';

/** Of a block as it starts, or of a whole one. */
export function charactersOfBlock(block: Fields): number {
  const { type, text, thinking, data, name, input } = block;
  if (type === 'text') return lengthOf(text);
  if (type === 'thinking') return lengthOf(thinking);
  if (type === 'redacted_thinking') return lengthOf(data);
  // What the provider's own tools are asked is written by the model too.
  const asked = isObject(input) && Object.keys(input).length > 0 ? JSON.stringify(input) : '';
  return lengthOf(name) + asked.length;
}

export function charactersOfDelta(delta: unknown): number {
  if (!isObject(delta)) return 0;
  const { text, thinking, partial_json: json } = delta;
  return lengthOf(text) + lengthOf(thinking) + lengthOf(json);
}
