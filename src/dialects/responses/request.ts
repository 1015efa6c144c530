import { Compile } from 'typebox/schema';
import type {
  AddressInput,
  ChatAsk,
  ModelNeeds,
  OwnAccountNeed,
  SearchWish,
} from '../../core/ask.ts';
import { invalidRequest } from '../../core/errors.ts';
import { fieldsOf } from '../../core/json.ts';
import { misfit } from '../../core/misfit.ts';
import { firstNeed, keptAt, keptBytes, keptIn, programNeed } from '../ask/account/own-account.ts';
import type { Source } from '../ask/body/edit-body.ts';
import { unknownFields } from '../ask/body/unknown-fields.ts';
import { cachesForHour } from '../ask/cache-hour.ts';
import { addressesIn } from '../ask/content/addresses.ts';
import { readChain, readPreferences } from '../ask/routing.ts';
import { readSearchWish } from '../ask/search-wish.ts';
import { namesGiven } from '../parameters.ts';
import {
  type AnyItem,
  checkItems,
  imageIn,
  isKnownItem,
  isKnownPart,
  type PlacedPart,
  partsOf,
} from './input-items.ts';
import { type ResponsesBody, responsesSchema } from './request-schema.ts';
import { checkAllowed } from './tool-forms.ts';
import {
  checkTools,
  hasOwnTools,
  isOwnTool,
  searchesIn,
  type ToolList,
  toolLists,
} from './tool-schema.ts';

const validator = Compile(responsesSchema);

/** A request in the words of the Responses API, checked. */
export interface ResponsesRequest {
  readonly ask: ChatAsk;
  readonly body: ResponsesBody;
  /** The bytes that the client sent; null once `body` no longer says the same. */
  readonly source: Source | null;
  /** Keeps tenants' prompt caches apart; null where there are no other tenants. */
  readonly tenantId: string | null;
}

export function readResponsesRequest(
  value: Record<string, unknown>,
  source: Source,
  tenantId: string | null = null,
): ResponsesRequest {
  refuseState(value);
  if (!validator.Check(value)) throw misfit(responsesSchema, value);
  const models = readChain(value);
  const items = typeof value.input === 'string' ? [] : value.input;
  checkItems(items);
  for (const { tools, path } of toolLists(value)) checkTools(tools, path);
  checkAllowed(value);
  const parts = items.flatMap((item, at) => [...partsOf(item, `input[${at}]`)]);
  const more = unknownFields(value, responsesSchema.properties);
  const ask: ChatAsk = {
    operation: 'chat',
    models,
    preferences: readPreferences(value),
    stream: value.stream === true,
    outputTokensMax: value.max_output_tokens ?? null,
    choices: 1,
    needs: readNeeds(value, parts),
    parameters: value.provider?.require_parameters ? parametersOf(value) : [],
    inputBytes: source.bytes.length,
    cachesForHour: cachesForHour(source),
    images: parts.flatMap(imageIn),
    user: value.user ?? value.safety_identifier ?? null,
    search: readSearch(value),
    skills: value.skills ?? [],
    addresses: addressesOf(value, items, parts, more),
    ownAccount: programNeed(more) ?? ownAccountFor(value, items, parts, more),
  };
  return { ask, body: value, source, tenantId };
}

/** Fields that refer to an earlier response or other stored state, and why they are refused. */
const stateful: Readonly<Record<string, string>> = {
  previous_response_id:
    'refers to a response of before, but nothing is kept here: ' +
    'send the whole conversation as input.',
  conversation:
    'refers to a conversation that is kept, but nothing is kept here: send all of it as input.',
  background: 'asks for an answer to be fetched later, but nothing is kept here: leave it out.',
  prompt: 'refers to a prompt that is kept elsewhere: send its text as instructions and input.',
};

export function refuseState(body: Readonly<Record<string, unknown>>): void {
  for (const [name, why] of Object.entries(stateful)) {
    const given = body[name] ?? null;
    if (given !== null && given !== false) throw invalidRequest(`${name} ${why}`, name);
  }
}

/**
 * The addresses in files and sounds, and in parts, items, tools and fields that only an upstream
 * knows. Past calls of a model do not count: pages that it opened are not fetched again.
 */
function addressesOf(
  { tools }: ResponsesBody,
  items: readonly AnyItem[],
  parts: readonly PlacedPart[],
  more: object,
): readonly AddressInput[] {
  const mayLead = ['input_file', 'input_audio'];
  const isForeign = ({ part }: PlacedPart) => !isKnownPart(part) || mayLead.includes(part.type);
  return [
    ...parts.filter(isForeign).flatMap(({ part, path }) => addressesIn(part, path)),
    ...items.flatMap((item, at) =>
      isKnownItem(item) || item.type?.endsWith('_call') ? [] : addressesIn(item, `input[${at}]`),
    ),
    ...(tools ?? []).flatMap((tool, at) =>
      isOwnTool(tool) ? [] : addressesIn(tool, `tools[${at}]`),
    ),
    ...addressesIn(more, ''),
  ];
}

/** Why the request needs the tenant's own account: it refers to what a provider keeps there. */
function ownAccountFor(
  body: ResponsesBody,
  items: readonly AnyItem[],
  parts: readonly PlacedPart[],
  more: object,
): OwnAccountNeed | undefined {
  return (
    firstNeed(parts, keptInPart) ??
    firstNeed(items, keptInItem) ??
    firstNeed(toolLists(body), keptInTools) ??
    keptIn(more, '')
  );
}

function keptInItem(item: AnyItem, at: number): OwnAccountNeed | undefined {
  const { type } = item;
  const isPicture = type === 'image_generation_call';
  // A picture that was drawn before may be sent back by its id alone.
  if (isPicture && !fieldsOf(item).result) return keptAt(`input[${at}].id`);
  const isOver = isKnownItem(item) || /_call$|^additional_tools$/.test(type ?? '');
  return isOver ? undefined : keptIn(item, `input[${at}]`);
}

function keptInTools({ tools, path }: ToolList): OwnAccountNeed | undefined {
  return firstNeed(tools, (tool, at) =>
    isOwnTool(tool) ? undefined : keptIn(tool, `${path}[${at}]`),
  );
}

function keptInPart({ part, path }: PlacedPart): OwnAccountNeed | undefined {
  if (!isKnownPart(part)) return keptIn(part, path);
  switch (part.type) {
    case 'input_image':
      return part.file_id ? keptAt(`${path}.file_id`) : undefined;
    case 'input_file':
      if (part.file_id) return keptAt(`${path}.file_id`);
      return keptBytes(part.file_data, `${path}.file_data`);
    case 'input_audio':
      return keptBytes(part.input_audio.data, `${path}.input_audio.data`);
    default:
      return undefined;
  }
}

function readNeeds(body: ResponsesBody, parts: readonly PlacedPart[]): ModelNeeds {
  const has = (type: string) => parts.some(({ part }) => part.type === type);
  const format = body.text?.format?.type ?? 'text';
  return {
    tools: hasOwnTools(body),
    json: format !== 'text',
    images: has('input_image'),
    audio: has('input_audio'),
    files: has('input_file'),
    thinkingBudget: false,
  };
}

/** Clients here mean OpenAI's own search: OpenAI does it unless the gateway has an engine. */
function readSearch(body: ResponsesBody): SearchWish | null {
  const { model = null, models = null, plugins = null } = body;
  const wish = readSearchWish({ model, models, plugins, tools: searchesIn(body) });
  return wish?.param.startsWith('tools') ? { ...wish, isVendors: true } : wish;
}

/** The parameters of the request by their names in chats, which the model list uses. */
function parametersOf(body: ResponsesBody): readonly string[] {
  return namesGiven({
    max_tokens: body.max_output_tokens,
    temperature: body.temperature,
    top_p: body.top_p,
    top_logprobs: body.top_logprobs,
    tools: body.tools,
    tool_choice: body.tool_choice,
    parallel_tool_calls: body.parallel_tool_calls,
    reasoning: body.reasoning,
    response_format: body.text?.format,
    user: body.user ?? body.safety_identifier,
  });
}
