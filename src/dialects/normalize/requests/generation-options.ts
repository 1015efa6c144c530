import { Type } from 'typebox';
import type { Quirks } from '../../../config/provider-schema.ts';
import type { Effort, JsonFormat, ReasoningOptions } from '../../../core/prompt.ts';
import type { Target } from '../../dialect.ts';
import { unknownFields } from './edit-body.ts';

/** Far above any model's limit; it only keeps absurd numbers out of the arithmetic. */
export const outputLimitSchema = Type.Integer({ minimum: 1, maximum: 100_000_000 });

/**
 * The output cap to send; null if there is none. It is lowered to the model's own limit: clients
 * that do not know a model ask for more, and would be refused.
 */
export function outputLimit(requested: number | null, target: Target): number | null {
  const { outputTokensMax: affordable, modelOutputTokensMax: modelMax } = target;
  const limit = affordable ?? requested;
  return limit === null || modelMax === null ? limit : Math.min(limit, modelMax);
}

/** Forms send an empty stop sequence if the user typed none. Vendors refuse it. */
export function nonEmptyStops(
  stop: string | readonly string[] | null | undefined,
): readonly string[] {
  const stops = typeof stop === 'string' ? [stop] : (stop ?? []);
  return stops.includes('') ? stops.filter((text) => text !== '') : stops;
}

/** The effort a client wants, even if it gave a number of tokens; null for the default. */
export function effortOf(options: ReasoningOptions | null): Effort | null {
  if (options === null) return null;
  const { effort, budgetTokens } = options;
  if (effort !== null || budgetTokens === null) return effort;
  if (budgetTokens <= 2_048) return 'low';
  return budgetTokens <= 12_000 ? 'medium' : 'high';
}

/** The effort for a model that has only levels: thinking as it sees fit becomes the middle one. */
export function levelOf(options: ReasoningOptions | null): Effort | null {
  return effortOf(options) ?? (options?.isAdaptive ? 'medium' : null);
}

/** An effort in the vendor's words, if it has its own; undefined for the model's default. */
export function vendorEffort(effort: Effort | null, { efforts }: Quirks): string | undefined {
  if (effort === null) return undefined;
  return efforts ? efforts[effort] : effort;
}

/**
 * Whether sampling parameters are refused beside this effort. If the client names no effort, a
 * model with effort levels reasons by default, unless its quirk says that it has to be asked.
 */
export function refusesSampling(
  word: string | undefined,
  { efforts, sampling_while_reasoning: mode = 'keep' }: Quirks,
): boolean {
  if (mode === 'keep' || word === 'none') return false;
  return word !== undefined || (mode === 'drop' && efforts !== undefined);
}

/** Values that only ask for what OpenAI does anyway. */
const defaultValues: ReadonlySet<unknown> = new Set(['auto', 'standard']);

/** The paths of unknown wishes about reasoning, such as `reasoning.mode`. */
export function* unknownReasoningFields(reasoning: object | null | undefined, known: object) {
  const others = Object.entries(unknownFields(reasoning ?? {}, known));
  for (const [name, value] of others) if (!defaultValues.has(value)) yield `reasoning.${name}`;
}

/** The wish for JSON: how OpenAI's clients express it, and how models are instructed. */

interface JsonSchemaFields {
  readonly name: string;
  readonly schema?: object | null | undefined;
  readonly description?: string | null | undefined;
  readonly strict?: boolean | null | undefined;
}

/** `schemed` holds the fields that come with the type `json_schema`. */
export function readJsonFormat(
  type: string | undefined,
  schemaFields: JsonSchemaFields | undefined,
): JsonFormat | null {
  if (type === 'json_object') return { schema: null, name: 'response' };
  if (schemaFields === undefined) return null;
  const { name, schema, description, strict } = schemaFields;
  return {
    schema: { ...schema },
    name,
    description: description || undefined,
    strict: strict ?? undefined,
  };
}

/** How the instruction begins for a model that may call tools as well. */
export const unlessCallingTools = 'When you answer without calling a tool, answer';

/** The instruction for a model that only words hold to JSON; a null schema means any object. */
export function jsonInstruction(schema: object | null, prefix = 'Answer'): string {
  const instruction = `${prefix} only with a JSON object, without any other text.`;
  return schema === null
    ? instruction
    : `${instruction} It satisfies this JSON Schema:\n${JSON.stringify(schema)}`;
}
