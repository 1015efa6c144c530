/** The wish for JSON: as OpenAI's clients say it, and as models are told of it. */
import type { JsonWish } from '../../core/dialogue.ts';

interface Schemed {
  readonly name: string;
  readonly schema?: object | null | undefined;
  readonly description?: string | null | undefined;
  readonly strict?: boolean | null | undefined;
}

/** `schemed` is what is said beside a type of `json_schema`. */
export function readJsonWish(
  type: string | undefined,
  schemed: Schemed | undefined,
): JsonWish | null {
  if (type === 'json_object') return { schema: null, name: 'response' };
  if (schemed === undefined) return null;
  const { name, schema, description, strict } = schemed;
  return {
    schema: { ...schema },
    name,
    description: description || undefined,
    strict: strict ?? undefined,
  };
}

/** How the instruction begins for a model that may call tools as well. */
export const unlessCalling = 'When you answer without calling a tool, answer';

/** What a model is told where nothing else holds it to JSON; a schema of null is any object's. */
export function jsonInstruction(schema: object | null, start = 'Answer'): string {
  const only = `${start} only with a JSON object, without any other text.`;
  return schema === null
    ? only
    : `${only} It satisfies this JSON Schema:\n${JSON.stringify(schema)}`;
}
