import type { Quirks } from '../../../config/provider-schema.ts';
import { fieldsOf, isNonEmptyString, isObject, type JsonObject } from '../../../core/json.ts';
import type { FetchedImages } from '../../dialect.ts';
import { sameIfUnchanged } from '../../normalize/requests/edit-body.ts';
import { withExactNumbers } from '../../normalize/requests/exact-numbers.ts';
import { nineCharacterCallId, shortCallId } from '../../normalize/requests/tool-identifiers.ts';
import { ownSignature } from '../../normalize/signature.ts';
import type { OpenAiRequest } from '../client/request.ts';
import type { ChatMessage, ToolCall } from '../client/schema.ts';
import { moveToolImages } from './tool-images.ts';

type LooseMessage = ChatMessage & Record<string, unknown>;

/**
 * Normalizes the messages for one vendor. Returns the same list if nothing changed, so that a large
 * conversation isn't serialized again.
 */
export function normalizeMessages(
  messages: readonly ChatMessage[],
  quirks: Quirks,
  images: FetchedImages,
): readonly ChatMessage[] {
  let adapted = changed(moveToolImages(messages), dropEmptyCalls);
  adapted = changed(adapted, addEmptyContent);
  adapted = changed(adapted, replayChanges[quirks.replay_reasoning ?? 'drop']);
  if (quirks.developer_role === 'system') adapted = changed(adapted, developerToSystem);
  if (quirks.text_parts === 'join') adapted = changed(adapted, joinTexts);
  if (quirks.message_names === 'drop') adapted = changed(adapted, dropName);
  if (quirks.answer_fields === 'known' || quirks.empty_answers === 'drop') {
    adapted = changed(adapted, refusalAsContent);
  }
  if (quirks.answer_fields === 'known') {
    adapted = changed(changed(adapted, dropLeftovers), dropCallSignatures);
  }
  if (quirks.tool_call_ids !== 'keep') {
    adapted = changed(adapted, quirks.tool_call_ids ? shortenAllCallIds : shortenLongCallIds);
  }
  if (images.size > 0) adapted = changed(adapted, putImages(images));
  if (quirks.system_messages === 'merge') adapted = mergeSystem(adapted);
  if (quirks.empty_answers === 'drop' && adapted.some(isEmptyAnswer)) {
    adapted = adapted.filter((message) => !isEmptyAnswer(message));
  }
  if (quirks.after_tool_results === 'answer') adapted = answerResults(adapted);
  return quirks.last_answer === 'continue' ? continueLast(adapted) : adapted;
}

type Change = (message: ChatMessage) => ChatMessage;

function changed(messages: readonly ChatMessage[], change: Change): readonly ChatMessage[] {
  for (const message of messages) if (change(message) !== message) return messages.map(change);
  return messages;
}

/** Replaces the URLs of fetched images in user messages and tool results. */
function putImages(images: FetchedImages): Change {
  return (message) => {
    if (message.role !== 'user' && message.role !== 'tool') return message;
    if (typeof message.content === 'string') return message;
    const replaced = message.content.map((part) => {
      if (part.type !== 'image_url') return part;
      const url = images.get(part.image_url.url);
      return url ? { ...part, image_url: { ...part.image_url, url } } : part;
    });
    const content = sameIfUnchanged(message.content, replaced);
    return content === message.content ? message : ({ ...message, content } as ChatMessage);
  };
}

/**
 * Drops the `uuid` of parts. vLLM caches a part under a `uuid` chosen by its sender and shares that
 * cache among all callers, so one tenant could get another's content. Without it, vLLM identifies a
 * part by its content.
 */
export function withoutPartUuids(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  return changed(messages, dropUuids);
}

const dropUuids: Change = (message) => {
  const { content } = message;
  if (!Array.isArray(content) || !content.some((part) => 'uuid' in part)) return message;
  const unnamed = content.map(({ uuid: _, ...part }: { readonly uuid?: unknown }) => part);
  return { ...message, content: unnamed } as ChatMessage;
};

/** Drops empty call fields, which some libraries send and OpenAI rejects. */
const dropEmptyCalls: Change = (message) => {
  if (message.role !== 'assistant') return message;
  const { tool_calls: calls, function_call: called } = message;
  const hasNoCalls = calls === null || calls?.length === 0;
  if (!hasNoCalls && called !== null) return message;
  const copy = { ...message };
  if (hasNoCalls) delete copy.tool_calls;
  if (called === null) delete copy.function_call;
  return copy;
};

/** An answer that was cut off before any output may have null content, which OpenAI rejects. */
const addEmptyContent: Change = (message) => {
  if (message.role !== 'assistant' || (message.content ?? null) !== null) return message;
  const loose: LooseMessage = message;
  const hasContent = loose.tool_calls || loose.function_call || loose.refusal || loose.audio;
  return hasContent ? message : { ...message, content: '' };
};

const developerToSystem: Change = (message) =>
  message.role === 'developer' ? { ...message, role: 'system' } : message;

/** Joins text parts into a string. Content with images stays a list. */
const joinTexts: Change = (message) => {
  const { content } = message;
  if (!Array.isArray(content)) return message;
  const texts = content.filter((part) => part.type === 'text');
  if (texts.length < content.length) return message;
  return { ...message, content: oneText(texts) } as ChatMessage;
};

/**
 * Returns the path of dropped `name` fields. The name in a tool result isn't reported, because it
 * only repeats the tool's name.
 */
export function messageNamePaths(messages: readonly ChatMessage[]): readonly string[] {
  const isNamed = ({ role, name }: LooseMessage) =>
    role !== 'tool' && role !== 'function' && isNonEmptyString(name);
  return messages.some(isNamed) ? ['messages.name'] : [];
}

const dropName: Change = (message) => {
  // A function's result needs its name, which is its only link to the call.
  if (!('name' in message) || message.role === 'function') return message;
  const { name: _, ...rest } = message as LooseMessage;
  return rest as ChatMessage;
};

/**
 * Moves a refusal to the content: vendors without the `refusal` field would see an empty answer.
 */
const refusalAsContent: Change = (message) => {
  if (message.role !== 'assistant' || !message.refusal || message.content?.length) return message;
  const { refusal: content, ...rest } = message;
  return { ...rest, content };
};

const reasoningFields = ['reasoning', 'reasoning_content', 'reasoning_details'];

/** Fields of earlier answers that are sent back to the upstream. `prefix` is Mistral's own. */
const answerFields: ReadonlySet<string> = new Set([
  ...['role', 'content', 'name', 'tool_calls', 'function_call', 'prefix'],
  ...reasoningFields,
]);

/** Drops all other fields. Clients send back every field that their library adds. */
const dropLeftovers: Change = (message) => {
  if (message.role !== 'assistant') return message;
  const all = Object.entries(message);
  const remaining = all.filter(([name]) => answerFields.has(name));
  return remaining.length === all.length ? message : (Object.fromEntries(remaining) as ChatMessage);
};

type ReasoningField = NonNullable<Quirks['replay_reasoning']>;

/**
 * Sends earlier reasoning back only in the vendor's own field. `missing`: the text if there is
 * none.
 */
function replayReasoning(field: ReasoningField, missing?: string): Change {
  return (message) => {
    if (message.role !== 'assistant') return message;
    const loose: LooseMessage = message;
    const { reasoning, reasoning_content: content } = loose;
    const present = reasoningFields.filter((name) => loose[name] !== undefined);
    if (present.length === 0 && missing === undefined) return message;
    const details = withoutForeignSignatures(loose.reasoning_details);
    const isUnchanged = details === loose.reasoning_details;
    if (present.length === 1 && present[0] === field && isUnchanged) return message;
    const isOther = ([name]: [string, unknown]) => !reasoningFields.includes(name);
    const others = Object.fromEntries(Object.entries(loose).filter(isOther));
    const text = content ?? reasoning ?? missing;
    const value = field === 'reasoning_details' ? details : text;
    const isLost = field === 'drop' || value === undefined || value === null;
    return (isLost ? others : { ...others, [field]: value }) as ChatMessage;
  };
}

/**
 * Drops signatures with one of the gateway's prefixes. They are from another dialect, and vendors
 * reject them.
 */
function withoutForeignSignatures(details: unknown): unknown {
  if (!Array.isArray(details)) return details;
  const remaining = details.filter((detail) => {
    const { signature } = fieldsOf(detail);
    return !isNonEmptyString(signature) || ownSignature('anthropic', signature) !== undefined;
  });
  if (remaining.length === details.length) return details;
  return remaining.length > 0 ? remaining : undefined;
}

/**
 * Drops Gemini's signatures from calls. They are for Google's OpenAI-style endpoint, and some
 * vendors reject the field.
 */
const dropCallSignatures: Change = (message) => {
  if (message.role !== 'assistant' || !message.tool_calls) return message;
  if (!message.tool_calls.some((call) => 'extra_content' in call)) return message;
  const calls = message.tool_calls.map(
    ({ extra_content: _, ...call }: ToolCall & { readonly extra_content?: unknown }) => call,
  );
  return { ...message, tool_calls: calls as ToolCall[] };
};

const replayChanges: Readonly<Record<ReasoningField, Change>> = {
  drop: replayReasoning('drop'),
  reasoning: replayReasoning('reasoning'),
  // If a conversation has tools, vendors with this field reject a turn without it. Many clients
  // drop the field, but an empty one is enough.
  reasoning_content: replayReasoning('reasoning_content', ''),
  reasoning_details: replayReasoning('reasoning_details'),
};

function shortenCallIds(shorten: (id: string) => string): Change {
  return (message) => {
    if (message.role === 'tool') {
      const id = shorten(message.tool_call_id);
      return id === message.tool_call_id ? message : { ...message, tool_call_id: id };
    }
    if (message.role !== 'assistant' || !message.tool_calls) return message;
    if (message.tool_calls.every(({ id }) => shorten(id) === id)) return message;
    const calls = message.tool_calls.map((call) => ({ ...call, id: shorten(call.id) }));
    return { ...message, tool_calls: calls };
  };
}

/** OpenAI rejects longer call IDs, such as those that vLLM generates. */
const callIdLengthMax = 40;

const shortenLongCallIds = shortenCallIds((id) => shortCallId(id, callIdLengthMax));
const shortenAllCallIds = shortenCallIds(nineCharacterCallId);

/** Merges all system messages into the first: some chat templates accept only one. */
function mergeSystem(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const system = messages.filter((message) => message.role === 'system');
  const [first] = messages;
  if (system.length === 0 || (system.length === 1 && first?.role === 'system')) return messages;
  const content = system.map((message) => oneText(message.content)).join('\n\n');
  const rest = messages.filter((message) => message.role !== 'system');
  return [{ role: 'system', content }, ...rest];
}

function oneText(content: string | readonly { readonly text: string }[]): string {
  return typeof content === 'string' ? content : content.map(({ text }) => text).join('\n\n');
}

/** True for an answer that was stopped before any output. */
function isEmptyAnswer(message: ChatMessage): boolean {
  if (message.role !== 'assistant' || message.tool_calls || message.function_call) return false;
  const { content } = message;
  if (typeof content === 'string') return content === '';
  return !content?.some((part) => part.type !== 'text' || part.text !== '');
}

/** Inserted between tool results and a user message. It can't be empty. */
const resultsReply: ChatMessage = { role: 'assistant', content: 'I have the results.' };

function answerResults(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const isUnanswered = ({ role }: ChatMessage, index: number) =>
    role === 'user' && messages[index - 1]?.role === 'tool';
  if (!messages.some(isUnanswered)) return messages;
  return messages.flatMap((message, index) =>
    isUnanswered(message, index) ? [resultsReply, message] : [message],
  );
}

const continueMessage: ChatMessage = { role: 'user', content: 'Continue.' };

/**
 * Appends a request to continue if the last message is an answer or an instruction. Appends nothing
 * after tool calls, which wait for results, or after an answer with `prefix`, which makes Mistral
 * continue by itself.
 */
function continueLast(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const last = messages.at(-1);
  const isAnswer = last?.role === 'assistant' && !last.tool_calls && !('prefix' in last);
  return isAnswer || last?.role === 'system' ? [...messages, continueMessage] : messages;
}

// Removes Anthropic's cache breakpoints for vendors that reject them.

type RemoveBreakpoints = (value: unknown) => unknown;

/**
 * Returns a function that removes the breakpoint from an object, or from each object in a list, and
 * from its fields named in `inside`.
 */
function breakpointRemover(
  inside: Readonly<Record<string, RemoveBreakpoints>> = {},
): RemoveBreakpoints {
  const remove: RemoveBreakpoints = (value) => {
    if (Array.isArray(value)) return sameIfUnchanged(value, value.map(remove));
    if (!isObject(value)) return value;
    let bare = 'cache_control' in value ? withoutCacheControl(value) : value;
    for (const [name, removeInner] of Object.entries(inside)) {
      const cleaned = removeInner(bare[name]);
      if (cleaned !== bare[name]) bare = { ...bare, [name]: cleaned };
    }
    return bare;
  };
  return remove;
}

function withoutCacheControl({ cache_control: _, ...bare }: JsonObject): JsonObject {
  return bare;
}

const removeAllBreakpoints = breakpointRemover({
  messages: breakpointRemover({ content: breakpointRemover(), tool_calls: breakpointRemover() }),
  tools: breakpointRemover({ function: breakpointRemover(), custom: breakpointRemover() }),
});

/** Removes the cache breakpoints. Returns the same request if it has none. */
export function withoutCacheBreakpoints(request: OpenAiRequest): OpenAiRequest {
  const { body, source } = request;
  if (removeAllBreakpoints(body) === body) return request;
  const bare = removeAllBreakpoints(withExactNumbers(body, source)) as OpenAiRequest['body'];
  return { ...request, body: bare, source: null };
}
