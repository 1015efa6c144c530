/** The wish for JSON: how OpenAI's clients express it, and how models are instructed. */
import type { JsonWish } from '../../core/dialogue.ts';

interface Schemed {
  readonly name: string;
  readonly schema?: object | null | undefined;
  readonly description?: string | null | undefined;
  readonly strict?: boolean | null | undefined;
}

/** `schemed` holds the fields that come with the type `json_schema`. */
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

/** The instruction for a model that only words hold to JSON; a null schema means any object. */
export function jsonInstruction(schema: object | null, start = 'Answer'): string {
  const only = `${start} only with a JSON object, without any other text.`;
  return schema === null
    ? only
    : `${only} It satisfies this JSON Schema:\n${JSON.stringify(schema)}`;
}
