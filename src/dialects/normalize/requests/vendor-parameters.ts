import type { Quirks } from '../../../config/provider-schema.ts';
import { fieldsOf } from '../../../core/json.ts';
import type { MediaTarget } from '../../dialect.ts';
import { serverParameters } from './restricted-parameters.ts';

/** The chat parameters that every chat dialect supports. */
export const commonParameters = [
  'max_tokens',
  'max_completion_tokens',
  'temperature',
  'top_p',
  'tools',
  'tool_choice',
  'functions',
  'function_call',
  'response_format',
  'reasoning',
  'reasoning_effort',
];

/** Two names of the same option. */
const reasoningNames = ['reasoning', 'reasoning_effort'];

/** Returns true if the operator configured the upstream to drop the parameter. */
export function dropsParameter({ drop_params: droppedNames }: Quirks, name: string): boolean {
  if (droppedNames === undefined) return false;
  const names = reasoningNames.includes(name) ? reasoningNames : [name];
  return names.some((alternative) => droppedNames.includes(alternative));
}

/** Returns the names of the parameters that a request sets. Null counts as unset. */
export function presentParameterNames(parameters: object): readonly string[] {
  const present = Object.entries(parameters).filter(([, value]) => (value ?? null) !== null);
  return present.filter((field) => !isDefaultToolChoice(field)).map(([name]) => name);
}

/** `auto` is the default of every model, even of models that can't be forced to call a tool. */
function isDefaultToolChoice([name, value]: readonly [string, unknown]): boolean {
  return name === 'tool_choice' && (value === 'auto' || fieldsOf(value).type === 'auto');
}

/** Renames parameters for a vendor and removes those that must not be sent to it. */
export function toVendorParameters(
  parameters: Readonly<Record<string, unknown>>,
  { quirks, isOwnAccount = false }: MediaTarget,
): { readonly fields: Readonly<Record<string, unknown>>; readonly dropped: readonly string[] } {
  const { drop_params: droppedNames = [], rename_params: names = {} } = quirks;
  const fields: [string, unknown][] = [];
  const dropped: string[] = [];
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null) continue;
    const isServerParameter = !isOwnAccount && serverParameters.has(name);
    if (isServerParameter || droppedNames.includes(name)) dropped.push(name);
    // Check for an own property, because a client's field may be called `constructor`.
    else fields.push([Object.hasOwn(names, name) ? (names[name] ?? name) : name, value]);
  }
  return { fields: Object.fromEntries(fields), dropped };
}
