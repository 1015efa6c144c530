/**
 * What OpenAI's own chat has known since GPT-5, and few other servers do: free-form tools, which
 * take a text that is no JSON, and a choice that allows only some tools. Other servers get a
 * free-form tool as a function with one text, as for Responses clients, and only the tools that may
 * be called.
 */
import { invalidRequest } from '../../core/errors.ts';
import { exactWords } from '../ask/body/exact-body.ts';
import { freeFormArguments, freeFormFunction } from '../ask/tools/free-form.ts';
import type { ChatRequest } from './chat-request.ts';
import type { ChatBody, ChatMessage, CustomTool, FunctionTool, ToolCall } from './chat-schema.ts';

type AnyTool = NonNullable<ChatBody['tools']>[number];
type Tools = Pick<ChatBody, 'tools' | 'tool_choice'>;

/** Searches, the third kind of tool, are run by the gateway itself. */
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

/** The names of free-form tools; undefined where there are none. */
export function customNames(tools: ChatBody['tools']): ReadonlySet<string> | undefined {
  const free = tools?.filter(isCustom);
  return free?.length ? new Set(free.map(({ custom }) => custom.name)) : undefined;
}

/** Refuses a choice that allows tools which are not in the list. */
export function checkAllowed({ tools, tool_choice: choice }: Tools): void {
  if (typeof choice !== 'object' || choice?.type !== 'allowed_tools') return;
  const names = new Set(tools?.map(nameOf));
  for (const [at, tool] of choice.allowed_tools.tools.entries()) {
    const { name } = tool.type === 'custom' ? tool.custom : tool.function;
    if (names.has(name)) continue;
    const param = `tool_choice.allowed_tools.tools[${at}].${tool.type}.name`;
    throw invalidRequest(`${param} is the name of none of the tools.`, param);
  }
}

/** The body with functions in place of what is newer; the very same object where nothing is. */
export function inFunctions(request: Pick<ChatRequest, 'body' | 'source'>): ChatRequest['body'] {
  const { tools, tool_choice: choice, messages } = request.body;
  const isChoiceNewer = typeof choice === 'object' && choice !== null && choice.type !== 'function';
  if (!isChoiceNewer && !tools?.some(isCustom) && !messages.some(callsCustom)) {
    return request.body;
  }
  const body = exactWords(request.body, request.source);
  return { ...body, ...toolsInFunctions(body), messages: body.messages.map(inFunctionCalls) };
}

export function toolsInFunctions({ tools, tool_choice: choice }: Tools) {
  const functions = tools?.map((tool) => (isCustom(tool) ? toFunction(tool) : tool)) ?? null;
  if (typeof choice !== 'object' || choice === null || choice.type === 'function') {
    return { tools: functions, tool_choice: choice ?? null };
  }
  if (choice.type === 'custom') {
    const chosen = { type: 'function' as const, function: choice.custom };
    return { tools: functions, tool_choice: chosen };
  }
  const { mode, tools: allowed } = choice.allowed_tools;
  const names = new Set<unknown>(allowed.map(nameOf));
  return { tools: functions?.filter((tool) => names.has(nameOf(tool))) ?? null, tool_choice: mode };
}

/** Keeps all other fields of the tool, such as a mark for prompt caching. */
function toFunction({ custom, ...beside }: CustomTool): FunctionTool {
  const { format, ...rest } = custom;
  const grammar = format?.type === 'grammar' ? { type: format.type, ...format.grammar } : null;
  const read = freeFormFunction({ ...rest, format: grammar });
  return { ...beside, type: 'function', function: { ...rest, ...read } };
}

export function functionIn(call: ToolCall): { readonly name: string; readonly arguments: string } {
  if (call.type !== 'custom') return call.function;
  return { name: call.custom.name, arguments: freeFormArguments(call.custom.input) };
}

function callsCustom(message: ChatMessage): boolean {
  if (message.role !== 'assistant' || !message.tool_calls) return false;
  return message.tool_calls.some(({ type }) => type === 'custom');
}

function inFunctionCalls(message: ChatMessage): ChatMessage {
  if (message.role !== 'assistant' || !callsCustom(message)) return message;
  const calls = message.tool_calls?.map((call): ToolCall => {
    if (call.type !== 'custom') return call;
    const { custom: _, ...rest } = call;
    return { ...rest, type: 'function', function: functionIn(call) };
  });
  return { ...message, tool_calls: calls ?? null };
}
