/**
 * `functions`, `function_call` and messages of the role `function`: OpenAI's form of tool calling
 * before there were tools. OpenAI-style upstreams get them as they are; for all others they become
 * tools, and a call in the answer becomes a `function_call` again.
 */
import type { ChatRequest } from './chat-request.ts';
import type { ChatBody, ChatMessage } from './chat-schema.ts';
import { nestFunction } from './flat-tools.ts';

/** A message without the older role `function`. */
export type ToolMessage = Exclude<ChatMessage, { readonly role: 'function' }>;

type InTools = Omit<ChatBody, 'messages'> & { readonly messages: readonly ToolMessage[] };

const type = 'function' as const;

/** Whether a call in the answer is to be told as a `function_call`. */
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
    // An answer with a `function_call` has room for one call.
    parallel_tool_calls: knowsFunctions(body) ? false : (body.parallel_tool_calls ?? null),
  };
}

/** Calls of functions have no ids: a result belongs to the last call of its name. */
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
