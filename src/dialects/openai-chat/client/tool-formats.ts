import { bufferedArgumentsMax } from '../../../core/bounds.ts';
import { invalidRequest } from '../../../core/errors.ts';
import {
  fieldsOf,
  isNonEmptyString,
  type JsonObject,
  lengthOf,
  objectsIn,
  textOf,
} from '../../../core/json.ts';
import type { RawBody } from '../../dialect.ts';
import { MalformedAnswer } from '../../failure.ts';
import { withExactNumbers } from '../../normalize/requests/exact-numbers.ts';
import { noParameters } from '../../normalize/requests/tool-schema.ts';
import {
  freeFormArguments,
  freeFormFunction,
  freeFormInput,
} from '../../normalize/requests/tools.ts';
import type {
  ChatBody,
  ChatMessage,
  CustomTool,
  FlatChoice,
  FlatCustomTool,
  FlatTool,
  FunctionTool,
  MessagesBody,
  SentBody,
  ToolCall,
} from './schema.ts';

// Converts custom tools, whose input is text instead of JSON, and choices that allow only some
// tools. OpenAI's own chat endpoint has supported both since GPT-5, but few other servers do. Other
// servers get each custom tool as a function with one text parameter, and they get only the tools
// that the choice allows.

const functionType = 'function' as const;

type AnyTool = NonNullable<ChatBody['tools']>[number];
type Tools = Pick<ChatBody, 'tools' | 'tool_choice'>;

export function isFunction(tool: AnyTool): tool is FunctionTool {
  return tool.type === 'function';
}

function isCustom(tool: AnyTool): tool is CustomTool {
  return tool.type === 'custom';
}

function nameOf(tool: AnyTool): string | undefined {
  if (isCustom(tool)) return tool.custom.name;
  return isFunction(tool) ? tool.function.name : undefined;
}

export function namesOf(tools: ChatBody['tools']): readonly string[] | undefined {
  return tools?.map(nameOf).filter((name) => name !== undefined);
}

/** Returns the names of the custom tools, or undefined if there are none. */
export function customNames(tools: ChatBody['tools']): ReadonlySet<string> | undefined {
  const customTools = tools?.filter(isCustom);
  return customTools?.length ? new Set(customTools.map(({ custom }) => custom.name)) : undefined;
}

/** Throws 400 for a choice that allows tools that aren't in the list. */
export function checkAllowedTools({ tools, tool_choice: choice }: Tools): void {
  if (typeof choice !== 'object' || choice?.type !== 'allowed_tools') return;
  const names = new Set(tools?.map(nameOf));
  for (const [index, tool] of choice.allowed_tools.tools.entries()) {
    const { name } = tool.type === 'custom' ? tool.custom : tool.function;
    if (names.has(name)) continue;
    const param = `tool_choice.allowed_tools.tools[${index}].${tool.type}.name`;
    throw invalidRequest(`${param} isn't the name of any tool.`, param);
  }
}

/**
 * Converts custom tools to functions, and `custom` and `allowed_tools` choices to choices that
 * older servers accept. Returns the same object if there is nothing to convert.
 */
export function toFunctionTools(request: {
  readonly body: MessagesBody;
  readonly source: RawBody | null;
}): MessagesBody {
  const { tools, tool_choice: choice, messages } = request.body;
  const isNewerChoice = typeof choice === 'object' && choice !== null && choice.type !== 'function';
  if (!isNewerChoice && !tools?.some(isCustom) && !messages.some(callsCustom)) {
    return request.body;
  }
  const body = withExactNumbers(request.body, request.source);
  return { ...body, ...functionToolFields(body), messages: body.messages.map(toFunctionCalls) };
}

export function functionToolFields({ tools, tool_choice: choice }: Tools) {
  const functions = tools?.map((tool) => (isCustom(tool) ? toFunction(tool) : tool)) ?? null;
  if (typeof choice !== 'object' || choice === null || choice.type === 'function') {
    return { tools: functions, tool_choice: choice ?? null };
  }
  if (choice.type === 'custom') {
    const chosen = { type: functionType, function: choice.custom };
    return { tools: functions, tool_choice: chosen };
  }
  const { mode, tools: allowed } = choice.allowed_tools;
  const names = new Set<unknown>(allowed.map(nameOf));
  return { tools: functions?.filter((tool) => names.has(nameOf(tool))) ?? null, tool_choice: mode };
}

/**
 * Adds a schema to functions without parameters, because some servers require one. Returns the same
 * object if no function lacks it.
 */
export function withParameters(
  body: MessagesBody,
  request: { readonly body: MessagesBody; readonly source: RawBody | null },
): MessagesBody {
  if (!body.tools?.some(lacksParameters)) return body;
  const { tools } = body === request.body ? withExactNumbers(body, request.source) : body;
  return { ...body, tools: tools?.map(addParameters) ?? null };
}

function lacksParameters(tool: AnyTool): tool is FunctionTool {
  return isFunction(tool) && !tool.function.parameters;
}

function addParameters(tool: AnyTool): AnyTool {
  if (!lacksParameters(tool)) return tool;
  const parameters = noParameters(tool.function.strict === true);
  return { ...tool, function: { ...tool.function, parameters } };
}

/** Keeps the other fields of the tool, such as `cache_control`. */
function toFunction({ custom, ...otherFields }: CustomTool): FunctionTool {
  const { format, ...rest } = custom;
  const grammar = format?.type === 'grammar' ? { type: format.type, ...format.grammar } : null;
  const read = freeFormFunction({ ...rest, format: grammar });
  return { ...otherFields, type: 'function', function: { ...rest, ...read } };
}

export function functionIn(call: ToolCall): { readonly name: string; readonly arguments: string } {
  if (call.type !== 'custom') return call.function;
  return { name: call.custom.name, arguments: freeFormArguments(call.custom.input) };
}

function callsCustom(message: ChatMessage): boolean {
  if (message.role !== 'assistant' || !message.tool_calls) return false;
  return message.tool_calls.some(({ type }) => type === 'custom');
}

function toFunctionCalls(message: ChatMessage): ChatMessage {
  if (message.role !== 'assistant' || !callsCustom(message)) return message;
  const calls = message.tool_calls?.map((call): ToolCall => {
    if (call.type !== 'custom') return call;
    const { custom: _, ...rest } = call;
    return { ...rest, type: 'function', function: functionIn(call) };
  });
  return { ...message, tool_calls: calls ?? null };
}

// Flat tools and tool choices, in the format of the Responses endpoint, converted to chat's format.

type SentTool = NonNullable<SentBody['tools']>[number];

/** Converts flat tools to chat's format. Returns the same object if there are none. */
export function nestTools(sent: SentBody): ChatBody {
  if (isNested(sent)) return sent;
  const { tools, tool_choice: choice, ...rest } = sent;
  return {
    ...rest,
    tools: tools?.map((tool) => (isFlat(tool) ? nest(tool) : tool)) ?? null,
    tool_choice: nestChoice(choice),
  };
}

function nestChoice(choice: SentBody['tool_choice']): ChatBody['tool_choice'] {
  if (choice === 'any') return 'required';
  return isFlatChoice(choice) ? { type: functionType, function: { name: choice.name } } : choice;
}

function isNested(sent: SentBody): sent is SentBody & ChatBody {
  const { tools, tool_choice: choice } = sent;
  return !tools?.some(isFlat) && !isFlatChoice(choice) && choice !== 'any';
}

/** In chat's format, the content of a tool or a choice is in a field named after its type. */
function isFlat(tool: SentTool): tool is FlatTool | FlatCustomTool {
  return (tool.type === functionType || tool.type === 'custom') && !(tool.type in tool);
}

function isFlatChoice(choice: SentBody['tool_choice']): choice is FlatChoice {
  return typeof choice === 'object' && choice !== null && !(choice.type in choice);
}

function nest(tool: FlatTool | FlatCustomTool): FunctionTool | CustomTool {
  if (tool.type === functionType) {
    const { type: _, ...rest } = tool;
    return nestFunction(rest);
  }
  const { type: kind, format, ...rest } = tool;
  const { type: formatType, ...grammar } = format ?? {};
  return {
    type: kind,
    custom: {
      ...rest,
      ...(formatType === 'grammar' ? { format: { type: formatType, grammar } } : {}),
    },
  };
}

function nestFunction(fields: Omit<FlatTool, 'type'>): FunctionTool {
  return { type: functionType, function: fields };
}

// `functions`, `function_call`, and messages with the role `function`: OpenAI's tool calling before
// it had `tools`. OpenAI-style upstreams get them unchanged. For all other upstreams, they are
// converted to tools, and a call in the answer is converted back.

/** A message that doesn't have the legacy role `function`. */
export type ToolMessage = Exclude<ChatMessage, { readonly role: 'function' }>;

type ToolsBody = Omit<ChatBody, 'messages'> & { readonly messages: readonly ToolMessage[] };

/** True if the client expects a tool call as a `function_call`. */
export function usesLegacyFunctions({ functions, tools }: Pick<ChatBody, 'functions' | 'tools'>) {
  return (functions?.length ?? 0) > 0 && (tools?.length ?? 0) === 0;
}

export function toTools(body: MessagesBody): ToolsBody {
  const messages = toToolMessages(body.messages);
  const { functions, function_call: choice, tools, tool_choice: newer } = body;
  if (!functions?.length) return { ...body, messages };
  const legacy =
    typeof choice === 'object' && choice ? { type: functionType, function: choice } : choice;
  return {
    ...body,
    messages,
    tools: [...(tools ?? []), ...functions.map(nestFunction)],
    tool_choice: newer ?? legacy ?? null,
    // A message has only one `function_call`.
    parallel_tool_calls: usesLegacyFunctions(body) ? false : (body.parallel_tool_calls ?? null),
  };
}

/**
 * Assigns IDs to legacy calls, which have none. A result belongs to the last call with its name.
 */
function toToolMessages(messages: readonly ChatMessage[]): readonly ToolMessage[] {
  const ids = new Map<string, string>();
  return messages.map((message, index): ToolMessage => {
    if (message.role === 'function') {
      const id = ids.get(message.name) ?? `call_${index}`;
      return { role: 'tool', tool_call_id: id, content: message.content ?? '' };
    }
    if (message.role !== 'assistant' || !message.function_call) return message;
    const id = `call_${index}`;
    const { function_call: call, ...rest } = message;
    ids.set(call.name, id);
    return {
      ...rest,
      tool_calls: [...(rest.tool_calls ?? []), { id, type: functionType, function: call }],
    };
  });
}

// Upstreams get custom tools as functions, so the calls are converted back for the client. The
// input is wrapped in JSON and can be extracted only once the JSON is complete.

type CustomTools = ReadonlySet<string>;

/** Converts the calls of a stream. */
export class CustomCalls {
  readonly #names: CustomTools;
  /** The buffered JSON by choice and by the call's index. */
  readonly #json = new Map<unknown, Map<unknown, string>>();
  #length = 0;

  constructor(names: CustomTools) {
    this.#names = names;
  }

  /** Returns the calls of a delta that can be sent now. At the end, adds the buffered input. */
  convert(
    calls: readonly JsonObject[],
    isEnd: boolean,
    choice: unknown = 0,
  ): readonly JsonObject[] {
    const converted = calls
      .filter((call) => !this.#buffer(call, choice))
      .map((call) => toCustomCall(call, '', this.#names));
    const buffered = isEnd ? this.#json.get(choice) : undefined;
    for (const [index, json] of buffered ?? []) {
      if (json !== '') converted.push({ index, custom: { input: freeFormInput(json) } });
      // Some servers send more input after the end. It belongs to the same call.
      buffered?.set(index, '');
    }
    return converted;
  }

  /**
   * Buffers the arguments of a custom tool's call. Returns false if the delta has something to send
   * now: the start of the call, or the call of another tool.
   */
  #buffer({ index, function: body }: JsonObject, choice: unknown): boolean {
    const { name, arguments: json } = fieldsOf(body);
    const isOpening = isNonEmptyString(name) && this.#names.has(name);
    const buffered = this.#json.get(choice) ?? new Map<unknown, string>();
    const before = isOpening ? '' : buffered.get(index);
    if (before === undefined) return false;
    this.#length += lengthOf(json);
    if (this.#length > bufferedArgumentsMax) {
      throw new MalformedAnswer('more custom tool input than can be buffered');
    }
    this.#json.set(choice, buffered.set(index, before + textOf(json)));
    return !isOpening;
  }
}

/** Converts the calls of a complete message in place. */
export function convertCustomCalls(message: JsonObject, names: CustomTools | undefined): void {
  if (!names || !Array.isArray(message.tool_calls)) return;
  message.tool_calls = objectsIn(message.tool_calls).map((call) =>
    toCustomCall(call, freeFormInput(textOf(fieldsOf(call.function).arguments)), names),
  );
}

function toCustomCall(call: JsonObject, input: string, names: CustomTools): JsonObject {
  const { name } = fieldsOf(call.function);
  if (!isNonEmptyString(name) || !names.has(name)) return call;
  return { ...call, type: 'custom', function: undefined, custom: { name, input } };
}
