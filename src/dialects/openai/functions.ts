/**
 * Tools that are spelt in other ways. Those of the Responses endpoint are put into chat's words.
 * `functions`, `function_call` and messages of the role `function` are how tools were called before
 * there were any: upstreams that speak as OpenAI does get them as they are; for all others they are
 * tools, and the answer's call is told the old way again.
 */
import type { ChatRequest } from './chat-request.ts';
import type {
  ChatBody,
  ChatMessage,
  CustomTool,
  FlatChoice,
  FlatCustomTool,
  FlatTool,
  FunctionTool,
  SentBody,
} from './chat-schema.ts';

/** A message as it is since there are tools. */
export type ToolMessage = Exclude<ChatMessage, { readonly role: 'function' }>;

type SentTool = NonNullable<SentBody['tools']>[number];

type InTools = Omit<ChatBody, 'messages'> & { readonly messages: readonly ToolMessage[] };

/** Whether the answer's call is to be told the old way. */
export function knowsFunctions({ functions, tools }: Pick<ChatBody, 'functions' | 'tools'>) {
  return (functions?.length ?? 0) > 0 && (tools?.length ?? 0) === 0;
}

export function inTools(body: ChatRequest['body']): InTools {
  const messages = messagesInTools(body.messages);
  const { functions, function_call: choice, tools, tool_choice: newer } = body;
  if (!functions?.length) return { ...body, messages };
  const older = typeof choice === 'object' && choice ? { type, function: choice } : choice;
  return {
    ...body,
    messages,
    tools: [...(tools ?? []), ...functions.map(toTool)],
    tool_choice: newer ?? older ?? null,
    // There is room for one call in such an answer.
    parallel_tool_calls: knowsFunctions(body) ? false : (body.parallel_tool_calls ?? null),
  };
}

const type = 'function' as const;
/** OpenAI refuses an empty schema. */
const noParameters = { type: 'object', properties: {} };

function toTool({ parameters, ...rest }: Omit<FlatTool, 'type'>): FunctionTool {
  return { type, function: { ...rest, parameters: parameters ?? noParameters } };
}

/** Every tool in chat's own words; the very same body where each is already. */
export function nestTools(sent: SentBody): ChatBody {
  if (isNested(sent)) return sent;
  const { tools, tool_choice: choice, ...rest } = sent;
  return {
    ...rest,
    tools: tools?.map((tool) => (isFlat(tool) ? nest(tool) : tool)) ?? null,
    tool_choice: isFlatChoice(choice) ? { type, function: { name: choice.name } } : choice,
  };
}

function isNested(sent: SentBody): sent is SentBody & ChatBody {
  return !sent.tools?.some(isFlat) && !isFlatChoice(sent.tool_choice);
}

/** In chat's words a tool and a choice say all in a field that is named as their type. */
function isFlat(tool: SentTool): tool is FlatTool | FlatCustomTool {
  return (tool.type === type || tool.type === 'custom') && !(tool.type in tool);
}

function isFlatChoice(choice: SentBody['tool_choice']): choice is FlatChoice {
  return typeof choice === 'object' && choice !== null && !(choice.type in choice);
}

function nest(tool: FlatTool | FlatCustomTool): FunctionTool | CustomTool {
  if (tool.type === type) {
    const { type: _, ...rest } = tool;
    return toTool(rest);
  }
  const { type: kind, format, ...rest } = tool;
  const { type: form, ...grammar } = format ?? {};
  return {
    type: kind,
    custom: { ...rest, ...(form === 'grammar' ? { format: { type: form, grammar } } : {}) },
  };
}

/** Calls had no ids: a result belongs to the last call of its name. */
function messagesInTools(messages: readonly ChatMessage[]): readonly ToolMessage[] {
  const ids = new Map<string, string>();
  return messages.map((message, at): ToolMessage => {
    if (message.role === 'function') {
      const id = ids.get(message.name) ?? `call_${at}`;
      return { role: 'tool', tool_call_id: id, content: message.content ?? '' };
    }
    if (message.role !== 'assistant' || !message.function_call) return message;
    const id = `call_${at}`;
    const { function_call: call, ...rest } = message;
    ids.set(call.name, id);
    return { ...rest, tool_calls: [...(rest.tool_calls ?? []), { id, type, function: call }] };
  });
}
