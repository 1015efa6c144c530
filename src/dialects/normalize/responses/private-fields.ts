/**
 * Removes what an answer says about the operator: what the provider charges for it, the account,
 * and the upstream's own records. Other unknown fields are forwarded, because providers add fields
 * all the time.
 */
import { isObject, type JsonObject } from '../../../core/json.ts';

/**
 * Matches the names that providers and other gateways give to their charges, such as
 * `cost_in_usd_ticks`, `market_cost`, `is_byok`, and `billing`. A gateway's own field lists the
 * accounts and models that it tried.
 */
const charge = /cost|pric(?:e|ing)|byok|bill|charge|credit|balance|gateway/i;

const privateNames: ReadonlySet<string> = new Set([
  ...['x_groq', 'request_id', 'generationId', 'user_id'],
  // Groq lists the models that worked on an answer. GitHub Copilot lists prices per token.
  ...['usage_breakdown', 'copilot_usage'],
]);

/** Objects with a section for each provider, and one for the gateway that chose among them. */
const sectioned: ReadonlySet<string> = new Set(['provider_metadata', 'providerMetadata']);

/** Fields of nearly every answer, which don't have to be matched against `charge`. */
const commonNames: ReadonlySet<string> = new Set([
  ...['id', 'object', 'created', 'model', 'choices', 'usage', 'type', 'delta', 'message'],
  ...['service_tier', 'system_fingerprint', 'obfuscation', 'provider'],
]);

export function isPrivateName(name: string): boolean {
  return privateNames.has(name) || charge.test(name);
}

/**
 * Removes private fields from the top level of an answer or event, in place. Nested objects aren't
 * searched, because they may contain the client's own fields, such as a tool's parameters. Returns
 * true if there were any.
 */
export function removePrivateFields(fields: JsonObject): boolean {
  let changed = false;
  for (const name in fields) {
    const value = fields[name];
    if (commonNames.has(name) || value === undefined) continue;
    if (sectioned.has(name) && isObject(value) && removePrivateFields(value)) changed = true;
    if (!isPrivateName(name)) continue;
    // Set to undefined, which isn't serialized: `delete` would make the object slow to use.
    fields[name] = undefined;
    changed = true;
  }
  return changed;
}

/**
 * Removes private fields from a usage report at any depth, in place. Returns true if there were
 * any.
 */
export function removeCharges(usage: unknown): boolean {
  if (Array.isArray(usage)) return usage.map(removeCharges).includes(true);
  if (!isObject(usage)) return false;
  let changed = removePrivateFields(usage);
  for (const name in usage) if (removeCharges(usage[name])) changed = true;
  return changed;
}
