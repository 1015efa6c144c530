import { Type } from 'typebox';
import type { Quirks } from '../../../config/provider-schema.ts';
import type { Effort, JsonFormat, ReasoningOptions } from '../../../core/prompt.ts';
import type { Target } from '../../dialect.ts';
import { unknownFields } from './unknown-fields.ts';

/** Far above any model's limit. This bound only keeps absurd numbers out of the arithmetic. */
export const outputLimitSchema = Type.Integer({ minimum: 1, maximum: 100_000_000 });

/**
 * Returns the output cap to send, or null for none. The cap is lowered to the model's limit.
 * Otherwise, the provider would reject requests of clients that don't know that limit.
 */
export function outputLimit(requested: number | null, target: Target): number | null {
  const { outputTokensMax: affordable, modelOutputTokensMax: modelMax } = target;
  const limit = affordable ?? requested;
  return limit === null || modelMax === null ? limit : Math.min(limit, modelMax);
}

/**
 * Removes empty stop sequences. Some apps send one for a blank input field, and vendors reject it.
 */
export function nonEmptyStops(
  stop: string | readonly string[] | null | undefined,
): readonly string[] {
  const stops = typeof stop === 'string' ? [stop] : (stop ?? []);
  return stops.includes('') ? stops.filter((text) => text !== '') : stops;
}

/**
 * Returns the requested effort, derived from the token budget if only that is set; null for the
 * default.
 */
export function effortOf(options: ReasoningOptions | null): Effort | null {
  if (options === null) return null;
  const { effort, budgetTokens } = options;
  if (effort !== null || budgetTokens === null) return effort;
  if (budgetTokens <= 2_048) return 'low';
  return budgetTokens <= 12_000 ? 'medium' : 'high';
}

/**
 * Returns the effort for a model that has only effort levels. Adaptive thinking becomes medium
 * effort.
 */
export function levelOf(options: ReasoningOptions | null): Effort | null {
  return effortOf(options) ?? (options?.isAdaptive ? 'medium' : null);
}

/** Returns the vendor's value for an effort; undefined for the model's default. */
export function vendorEffort(effort: Effort | null, { efforts }: Quirks): string | undefined {
  if (effort === null) return undefined;
  return efforts ? efforts[effort] : effort;
}

/**
 * Returns true if sampling parameters are rejected at this effort. If no effort is set, a model
 * with effort levels is assumed to reason, unless the quirk is `drop_when_requested`.
 */
export function rejectsSampling(
  effort: string | undefined,
  { efforts, sampling_while_reasoning: mode = 'keep' }: Quirks,
): boolean {
  if (mode === 'keep' || effort === 'none') return false;
  return effort !== undefined || (mode === 'drop' && efforts !== undefined);
}

/** Values that match OpenAI's defaults. */
const defaultValues: ReadonlySet<unknown> = new Set(['auto', 'standard']);

/** Yields the paths of unknown reasoning options, such as `reasoning.mode`. */
export function* unknownReasoningFields(reasoning: object | null | undefined, known: object) {
  const others = Object.entries(unknownFields(reasoning ?? {}, known));
  for (const [name, value] of others) if (!defaultValues.has(value)) yield `reasoning.${name}`;
}

// JSON output: how OpenAI's clients request it, and the instruction for models without a JSON mode.

interface JsonSchemaFields {
  readonly name: string;
  readonly schema?: object | null | undefined;
  readonly description?: string | null | undefined;
  readonly strict?: boolean | null | undefined;
}

/**
 * Reads the requested JSON format; null for plain text. `schemaFields` are the fields of the type
 * `json_schema`.
 */
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

/** The start of the instruction for a model that may also call tools. */
export const unlessCallingTools = 'When you answer without calling a tool, answer';

/** Returns the instruction for a model without a JSON mode. A null schema allows any object. */
export function jsonInstruction(schema: object | null, prefix = 'Answer'): string {
  const instruction = `${prefix} only with a JSON object, without any other text.`;
  return schema === null
    ? instruction
    : `${instruction} It must conform to this JSON Schema:\n${JSON.stringify(schema)}`;
}
