/**
 * `functions`, `function_call` and messages of the role `function`: how tools were called before
 * there were any. Upstreams that speak as OpenAI does get them as they are; for all others they are
 * tools, and the answer's call is told the old way again.
 */
import type { ChatRequest } from './chat-request.ts';
import type { ChatBody, ChatMessage } from './chat-schema.ts';
import { nestFunction } from './flat-tools.ts';

/** A message as it is since there are tools. */
export type ToolMessage = Exclude<ChatMessage, { readonly role: 'function' }>;

type InTools = Omit<ChatBody, 'messages'> & { readonly messages: readonly ToolMessage[] };

const type = 'function' as const;

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
    tools: [...(tools ?? []), ...functions.map(nestFunction)],
    tool_choice: newer ?? older ?? null,
    // There is room for one call in such an answer.
    parallel_tool_calls: knowsFunctions(body) ? false : (body.parallel_tool_calls ?? null),
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
