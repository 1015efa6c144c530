import type { JsonWish } from '../../core/dialogue.ts';

/** What a model is told where nothing else holds it to JSON. */
export function jsonInstruction({ schema }: JsonWish): string {
  const only = 'Answer only with a JSON object, without any other text.';
  return schema === null
    ? only
    : `${only} It satisfies this JSON Schema:\n${JSON.stringify(schema)}`;
}
