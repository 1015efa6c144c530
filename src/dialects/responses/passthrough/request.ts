import { objectsIn } from '../../../core/json.ts';
import type { Edits, FetchedImages, Target, UpstreamRequest } from '../../dialect.ts';
import { checkedNames } from '../../normalize/requests/checked-names.ts';
import {
  dropFields,
  editBody,
  gatewayFields,
  sameIfUnchanged,
} from '../../normalize/requests/edit-body.ts';
import {
  outputLimit,
  rejectsSampling,
  vendorEffort,
} from '../../normalize/requests/generation-options.ts';
import { isolateCaches } from '../../normalize/requests/prompt-cache.ts';
import {
  dropSurcharged,
  withoutPaidTools,
} from '../../normalize/requests/restricted-parameters.ts';
import { withDependents } from '../../normalize/requests/tools.ts';
import { dropsParameter } from '../../normalize/requests/vendor-parameters.ts';
import {
  type AnyItem,
  type AnyPart,
  isKnownItem,
  isKnownPart,
  isMessage,
  isResult,
  itemSchemas,
  partSchemas,
} from '../client/input-items.ts';
import type { ResponsesRequest } from '../client/request.ts';
import { encryptedReasoning, type ResponsesBody, responsesSchema } from '../client/schema.ts';
import { isGatewaySearch } from '../client/searches.ts';
import { clientToolSchemas, toolLists, withParameters } from '../client/tools.ts';
import { ownReasoning } from '../reasoning-signature.ts';
import { outputTokensMin, validCallId } from '../upstream/request.ts';

const names = checkedNames(responsesSchema, itemSchemas, partSchemas, clientToolSchemas);

/** Passes a Responses client's request to a Responses upstream, edited as needed. */
export function passResponsesRequest(request: ResponsesRequest, target: Target): UpstreamRequest {
  const body: ResponsesBody & Record<string, unknown> = withParameters(request);
  const edits: Edits = { model: target.upstreamModel };
  if (body !== request.body) edits.tools = body.tools;
  dropFields(body, gatewayFields, edits);
  limitOutput(body, target, edits);
  // The gateway doesn't store responses, so the upstream must not store them either.
  if (body.store !== false) edits.store = false;
  const filtered = dropPaidTools(body, target, edits);
  const input = normalizeInput(filtered.input, target);
  if (input !== body.input) edits.input = input;
  const dropped = new Set([...dropSurcharged(body, target, edits), ...filtered.dropped]);
  const drop = (name: string) => {
    if ((body[name] ?? null) === null) return;
    edits[name] = undefined;
    dropped.add(name);
  };
  isolateCaches(body, request.tenantId, target, edits);
  includeEncryptedReasoning(body, target, edits);
  if (setEffort(body, target, edits, drop)) for (const name of ['temperature', 'top_p']) drop(name);
  const { drop_params: unsupported = [] } = target.quirks;
  for (const name of unsupported) drop(name);
  if (dropsParameter(target.quirks, 'reasoning')) drop('reasoning');
  if (unsupported.length > 0) dropFields(body, withDependents(unsupported), edits);
  return {
    path: '/responses',
    body: editBody({ body, source: request.source, checkedNames: names }, edits),
    dropped: [...dropped],
  };
}

function limitOutput(body: ResponsesBody, target: Target, edits: Edits): void {
  const cap = outputLimit(body.max_output_tokens ?? null, target);
  if (cap === null) return;
  const limit = Math.max(cap, outputTokensMin);
  if (limit !== body.max_output_tokens) edits.max_output_tokens = limit;
}

/**
 * Requests encrypted reasoning, because no reasoning is stored. Models that don't reason reject
 * this.
 */
function includeEncryptedReasoning(body: ResponsesBody, { thinking }: Target, edits: Edits): void {
  const include = body.include ?? [];
  if (thinking === null) {
    const rest = include.filter((name) => name !== encryptedReasoning);
    if (rest.length < include.length) edits.include = rest.length > 0 ? rest : undefined;
  } else if (!include.includes(encryptedReasoning)) {
    edits.include = [...include, encryptedReasoning];
  }
}

/**
 * Writes the vendor's effort. Returns true if the vendor rejects sampling parameters at that
 * effort.
 */
function setEffort(
  body: ResponsesBody,
  { quirks, thinking }: Target,
  edits: Edits,
  drop: (name: string) => void,
): boolean {
  const effort = body.reasoning?.effort ?? null;
  if (thinking === null) {
    // Dropping `none` loses nothing, because the model doesn't reason anyway.
    if (effort === 'none') edits.reasoning = undefined;
    else drop('reasoning');
    return false;
  }
  const vendorValue = vendorEffort(effort, quirks);
  if (effort !== null && vendorValue !== effort) {
    edits.reasoning = { ...body.reasoning, effort: vendorValue };
  }
  return rejectsSampling(vendorValue, quirks);
}

// Drops tools that the provider bills in addition to the endpoint's price, wherever they appear in
// the request.

type Choice = ResponsesBody['tool_choice'];

interface FilteredInput {
  readonly input: ResponsesBody['input'];
  readonly dropped: readonly string[];
}

/** Returns the input without such tools, and edits `tools` and `tool_choice`. */
function dropPaidTools(body: ResponsesBody, target: Target, edits: Edits): FilteredInput {
  const { tools, removed, dropped } = withoutPaidTools(body.tools ?? [], target);
  const names = [...dropped];
  const input = withoutExcludedTools(body.input, target, names);
  if (names.length === 0) return { input, dropped: names };
  if (removed.length > 0) edits.tools = tools.length > 0 ? tools : undefined;
  const hasTools = toolLists({ tools: [...tools], input }).some((list) => list.tools.length > 0);
  const choice = hasTools ? allowedChoice(body.tool_choice, target) : undefined;
  if (choice !== body.tool_choice) edits.tool_choice = choice;
  return { input, dropped: names };
}

/** Items that contain tools: the tools that Codex adds, and the results of its tool search. */
const itemTypesWithTools: readonly unknown[] = ['additional_tools', 'tool_search_output'];

function withoutExcludedTools(
  input: ResponsesBody['input'],
  target: Target,
  names: string[],
): ResponsesBody['input'] {
  if (typeof input === 'string') return input;
  let filtered = input;
  for (const [index, item] of input.entries()) {
    if (!itemTypesWithTools.includes(item.type) || !('tools' in item)) continue;
    const addedTools = objectsIn(item.tools);
    const { tools, dropped } = withoutPaidTools(addedTools, target, `input[${index}].tools`);
    if (dropped.length === 0) continue;
    const rest = { ...item, tools };
    filtered = filtered.with(index, rest);
    names.push(...dropped);
  }
  return filtered;
}

/** Returns the tool choice, or undefined if its tool was dropped. */
function allowedChoice(choice: Choice, target: Target): Choice {
  if (!choice || typeof choice === 'string') return choice;
  if (withoutPaidTools([choice], target).removed.length > 0) return undefined;
  const { tools, removed } = withoutPaidTools(choice.tools ?? [], target);
  if (removed.length === 0) return choice;
  return tools.length > 0 ? { ...choice, tools: [...tools] } : undefined;
}

/**
 * Removes reasoning of other providers, which OpenAI would reject. Returns the same list if there
 * is nothing to remove.
 */
function normalizeInput(input: ResponsesBody['input'], target: Target): ResponsesBody['input'] {
  if (typeof input === 'string') return input;
  const normalized = input.map((item) => normalizeItem(item, target));
  const remaining = normalized.filter((item) => item !== undefined);
  if (remaining.length === input.length) return sameIfUnchanged(input, remaining);
  // OpenAI can tell from an item's ID which reasoning item must precede the item, and rejects the
  // item if that reasoning item is missing.
  return remaining.map((item) => ('id' in item ? { ...item, id: undefined } : item));
}

function normalizeItem(item: AnyItem, { images, provider }: Target): AnyItem | undefined {
  if (isKnownItem(item) && item.type === 'reasoning') return ownReasoning(item, provider);
  if (isGatewaySearch(item)) return undefined;
  const named = withValidCallId(item);
  return images.size === 0 ? named : putImages(named, images);
}

function withValidCallId(item: AnyItem): AnyItem {
  if (!('call_id' in item) || typeof item.call_id !== 'string') return item;
  const id = validCallId(item.call_id);
  const named = { ...item, call_id: id };
  return id === item.call_id ? item : named;
}

function putImages(item: AnyItem, images: FetchedImages): AnyItem {
  if (isResult(item) && typeof item.output !== 'string') {
    const normalized = { ...item, output: item.output.map((part) => inline(part, images)) };
    return normalized;
  }
  if (isMessage(item) && typeof item.content !== 'string') {
    const normalized = { ...item, content: item.content.map((part) => inline(part, images)) };
    return normalized;
  }
  return item;
}

function inline(part: AnyPart, images: FetchedImages): AnyPart {
  if (!isKnownPart(part) || part.type !== 'input_image') return part;
  const found = images.get(part.image_url ?? '');
  const shown = { ...part, image_url: found ?? part.image_url };
  return found === undefined ? part : shown;
}
