import { Compile } from 'typebox/schema';
import { invalidRequest } from '../../../core/errors.ts';
import { fieldsOf } from '../../../core/json.ts';
import type {
  ChatRequestInfo,
  ModelNeeds,
  OwnAccountRequirement,
  SearchOptions,
  UrlInput,
} from '../../../core/request-info.ts';
import { validationError } from '../../../core/schema.ts';
import type { RawBody } from '../../dialect.ts';
import {
  firstRequirement,
  programRequirement,
  storedBytes,
  storedContentAt,
  storedContentIn,
  urlsIn,
} from '../../normalize/requests/external-references.ts';
import { usesLongCacheTtl } from '../../normalize/requests/prompt-cache.ts';
import { readModels, readPreferences } from '../../normalize/requests/routing.ts';
import { readSearchOptions } from '../../normalize/requests/search-options.ts';
import { unknownFields } from '../../normalize/requests/unknown-fields.ts';
import { presentParameterNames } from '../../normalize/requests/vendor-parameters.ts';
import {
  type AnyItem,
  checkItems,
  imageIn,
  isKnownItem,
  isKnownPart,
  type LocatedPart,
  partsOf,
} from './input-items.ts';
import { type ResponsesBody, responsesSchema, type SentBody } from './schema.ts';
import {
  checkAllowedTools,
  checkTools,
  hasClientTools,
  isClientTool,
  searchesIn,
  type ToolList,
  toolLists,
} from './tools.ts';

const validator = Compile(responsesSchema);

/** A validated request of the Responses API. */
export interface ResponsesRequest {
  readonly request: ChatRequestInfo;
  readonly body: ResponsesBody;
  /** The client's bytes, or null once they differ from `body`. */
  readonly source: RawBody | null;
  /** Separates the tenants' prompt caches; null if there are no other tenants. */
  readonly tenantId: string | null;
}

export function readResponsesRequest(
  sent: Record<string, unknown>,
  source: RawBody,
  tenantId: string | null = null,
): ResponsesRequest {
  rejectState(sent);
  if (!validator.Check(sent)) throw validationError(responsesSchema, sent);
  const value: ResponsesBody = hasOwnChoice(sent) ? sent : { ...sent, tool_choice: 'required' };
  const models = readModels(value);
  const items = typeof value.input === 'string' ? [] : value.input;
  checkItems(items);
  for (const { tools, path } of toolLists(value)) checkTools(tools, path);
  checkAllowedTools(value);
  const parts = items.flatMap((item, index) => [...partsOf(item, `input[${index}]`)]);
  const extraFields = unknownFields(value, responsesSchema.properties);
  const request: ChatRequestInfo = {
    operationName: 'chat',
    models,
    preferences: readPreferences(value),
    stream: value.stream === true,
    outputTokensMax: value.max_output_tokens ?? null,
    choices: 1,
    needs: readNeeds(value, parts),
    parameters: value.provider?.require_parameters ? parametersOf(value) : [],
    inputBytes: source.bytes.length,
    usesLongCacheTtl: usesLongCacheTtl(source),
    images: parts.flatMap(imageIn),
    user: value.user ?? value.safety_identifier ?? null,
    promptCacheKey: value.prompt_cache_key ?? null,
    search: readSearch(value),
    skills: value.skills ?? [],
    urls: urlsOf(value, items, parts, extraFields),
    ownAccount: programRequirement(extraFields) ?? ownAccountFor(value, items, parts, extraFields),
  };
  return { request, body: value, source: value === sent ? source : null, tenantId };
}

/** Returns false for a choice by another vendor's name. */
function hasOwnChoice(sent: SentBody): sent is SentBody & ResponsesBody {
  return sent.tool_choice !== 'any';
}

/** Fields that refer to stored state, and why they are rejected. */
const stateful: Readonly<Record<string, string>> = {
  previous_response_id:
    "references a stored response, but this gateway doesn't store responses. " +
    'Send the full conversation as input.',
  conversation:
    "references a stored conversation, but this gateway doesn't store conversations. " +
    'Send the full conversation as input.',
  background: "isn't supported because this gateway doesn't store responses. Leave it out.",
  prompt: 'references a stored prompt. Send its text as instructions and input.',
};

export function rejectState(body: Readonly<Record<string, unknown>>): void {
  for (const [name, problem] of Object.entries(stateful)) {
    const fieldValue = body[name] ?? null;
    if (fieldValue !== null && fieldValue !== false)
      throw invalidRequest(`${name} ${problem}`, name);
  }
}

/**
 * Returns the URLs in files and audio, and in parts, items, tools, and fields that the gateway
 * doesn't know. Tool calls that the model made earlier are skipped, because the pages they opened
 * aren't fetched again.
 */
function urlsOf(
  { tools }: ResponsesBody,
  items: readonly AnyItem[],
  parts: readonly LocatedPart[],
  extraFields: object,
): readonly UrlInput[] {
  const partTypesWithUrls = ['input_file', 'input_audio'];
  const mayContainUrl = ({ part }: LocatedPart) =>
    !isKnownPart(part) || partTypesWithUrls.includes(part.type);
  return [
    ...parts.filter(mayContainUrl).flatMap(({ part, path }) => urlsIn(part, path)),
    ...items.flatMap((item, index) =>
      isKnownItem(item) || item.type?.endsWith('_call') ? [] : urlsIn(item, `input[${index}]`),
    ),
    ...(tools ?? []).flatMap((tool, index) =>
      isClientTool(tool) ? [] : urlsIn(tool, `tools[${index}]`),
    ),
    ...urlsIn(extraFields, ''),
  ];
}

/**
 * Returns why the request needs the tenant's own account, if it refers to content stored in one.
 */
function ownAccountFor(
  body: ResponsesBody,
  items: readonly AnyItem[],
  parts: readonly LocatedPart[],
  extraFields: object,
): OwnAccountRequirement | undefined {
  return (
    firstRequirement(parts, accountRequirementOfPart) ??
    firstRequirement(items, accountRequirementOfItem) ??
    firstRequirement(toolLists(body), accountRequirementOfTools) ??
    storedContentIn(extraFields, '')
  );
}

function accountRequirementOfItem(item: AnyItem, at: number): OwnAccountRequirement | undefined {
  const { type } = item;
  const isImage = type === 'image_generation_call';
  // A client may send back only the ID of a generated image.
  if (isImage && !fieldsOf(item).result) return storedContentAt(`input[${at}].id`);
  const isPast = isKnownItem(item) || /_call$|^additional_tools$/.test(type ?? '');
  return isPast ? undefined : storedContentIn(item, `input[${at}]`);
}

function accountRequirementOfTools({ tools, path }: ToolList): OwnAccountRequirement | undefined {
  return firstRequirement(tools, (tool, index) =>
    isClientTool(tool) ? undefined : storedContentIn(tool, `${path}[${index}]`),
  );
}

function accountRequirementOfPart({ part, path }: LocatedPart): OwnAccountRequirement | undefined {
  if (!isKnownPart(part)) return storedContentIn(part, path);
  switch (part.type) {
    case 'input_image':
      return part.file_id ? storedContentAt(`${path}.file_id`) : undefined;
    case 'input_file':
      if (part.file_id) return storedContentAt(`${path}.file_id`);
      return storedBytes(part.file_data, `${path}.file_data`);
    case 'input_audio':
      return storedBytes(part.input_audio.data, `${path}.input_audio.data`);
    default:
      return undefined;
  }
}

function readNeeds(body: ResponsesBody, parts: readonly LocatedPart[]): ModelNeeds {
  const has = (type: string) => parts.some(({ part }) => part.type === type);
  const format = body.text?.format?.type ?? 'text';
  return {
    tools: hasClientTools(body),
    json: format !== 'text',
    images: has('input_image'),
    audio: has('input_audio'),
    files: has('input_file'),
    thinkingBudget: false,
  };
}

/**
 * Reads the search options. Clients expect OpenAI's own search, which OpenAI runs unless the
 * gateway has a search engine.
 */
function readSearch(body: ResponsesBody): SearchOptions | null {
  const { model = null, models = null, plugins = null } = body;
  const search = readSearchOptions({ model, models, plugins, tools: searchesIn(body) });
  return search?.param.startsWith('tools') ? { ...search, isProviderTool: true } : search;
}

/** Returns the parameters by their names in chat completions, which the model list uses. */
function parametersOf(body: ResponsesBody): readonly string[] {
  return presentParameterNames({
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
