import type { Quirks } from '../../../config/provider-schema.ts';
import { type Fields, fieldsOf, isObject, isText } from '../../../core/json.ts';
import type { FetchedImages } from '../../dialect.ts';
import { sameIfUnchanged, withExactNumbers } from '../../normalize/requests/edit-body.ts';
import { nineCharacterCallId, shortCallId } from '../../normalize/requests/tools.ts';
import { ownSignature } from '../../normalize/signature.ts';
import type { OpenAiRequest } from '../client/request.ts';
import type { ChatMessage, ToolCall } from '../client/schema.ts';

type LooseMessage = ChatMessage & Record<string, unknown>;

/**
 * The messages as one vendor wants them. Answers the very same list when there is nothing to
 * change, which is what lets a large conversation pass through untouched.
 */
export function normalizeMessages(
  messages: readonly ChatMessage[],
  quirks: Quirks,
  images: FetchedImages,
): readonly ChatMessage[] {
  let adapted = changed(messages, dropEmptyCalls);
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

/** Puts fetched pictures where their addresses stood, in user messages and in tool results. */
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
 * vLLM caches a part under the `uuid` that its sender chose, and shares the cache among all
 * callers: what one tenant sent under a `uuid`, another would be shown. Without it, a part is known
 * by its content.
 */
export function withoutNamedParts(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  return changed(messages, dropUuids);
}

const dropUuids: Change = (message) => {
  const { content } = message;
  if (!Array.isArray(content) || !content.some((part) => 'uuid' in part)) return message;
  const unnamed = content.map(({ uuid: _, ...part }: { readonly uuid?: unknown }) => part);
  return { ...message, content: unnamed } as ChatMessage;
};

/** Libraries write null or an empty list, which OpenAI refuses, for a turn without calls. */
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

/** An answer that was cut off before its first word may have null content: OpenAI refuses it. */
const addEmptyContent: Change = (message) => {
  if (message.role !== 'assistant' || (message.content ?? null) !== null) return message;
  const loose: LooseMessage = message;
  const hasContent = loose.tool_calls || loose.function_call || loose.refusal || loose.audio;
  return hasContent ? message : { ...message, content: '' };
};

const developerToSystem: Change = (message) =>
  message.role === 'developer' ? { ...message, role: 'system' } : message;

/** Joins texts into one; content with pictures stays a list. */
const joinTexts: Change = (message) => {
  const { content } = message;
  if (!Array.isArray(content)) return message;
  const texts = content.filter((part) => part.type === 'text');
  if (texts.length < content.length) return message;
  return { ...message, content: oneText(texts) } as ChatMessage;
};

/** Reports names of speakers as left out. The name on a tool's result is not that of a speaker. */
export function speakerNames(messages: readonly ChatMessage[]): readonly string[] {
  const isNamed = ({ role, name }: LooseMessage) =>
    role !== 'tool' && role !== 'function' && isText(name);
  return messages.some(isNamed) ? ['messages.name'] : [];
}

const dropName: Change = (message) => {
  // The result of a function has nothing but its name to say which call it answers.
  if (!('name' in message) || message.role === 'function') return message;
  const { name: _, ...rest } = message as LooseMessage;
  return rest as ChatMessage;
};

/** OpenAI's models put a refusal into a field of its own: to other vendors that answer is empty. */
const refusalAsContent: Change = (message) => {
  if (message.role !== 'assistant' || !message.refusal || message.content?.length) return message;
  const { refusal: content, ...rest } = message;
  return { ...rest, content };
};

const reasoningFields = ['reasoning', 'reasoning_content', 'reasoning_details'];

/** Fields of an answer that are kept when it is sent back; `prefix` is Mistral's own. */
const answerFields: ReadonlySet<string> = new Set([
  ...['role', 'content', 'name', 'tool_calls', 'function_call', 'prefix'],
  ...reasoningFields,
]);

/** Clients send answers back with everything that their library put into them. */
const dropLeftovers: Change = (message) => {
  if (message.role !== 'assistant') return message;
  const all = Object.entries(message);
  const remaining = all.filter(([name]) => answerFields.has(name));
  return remaining.length === all.length ? message : (Object.fromEntries(remaining) as ChatMessage);
};

type ReasoningField = NonNullable<Quirks['replay_reasoning']>;

/** Earlier reasoning goes back in the field the vendor reads, and in no other. */
function replayReasoning(field: ReasoningField, missing?: string): Change {
  return (message) => {
    if (message.role !== 'assistant') return message;
    const loose: LooseMessage = message;
    const { reasoning, reasoning_content: content } = loose;
    const present = reasoningFields.filter((name) => loose[name] !== undefined);
    if (present.length === 0 && missing === undefined) return message;
    const details = withoutForeignSignatures(loose.reasoning_details);
    const isTheirs = details === loose.reasoning_details;
    if (present.length === 1 && present[0] === field && isTheirs) return message;
    const isOther = ([name]: [string, unknown]) => !reasoningFields.includes(name);
    const others = Object.fromEntries(Object.entries(loose).filter(isOther));
    const text = content ?? reasoning ?? missing;
    const value = field === 'reasoning_details' ? details : text;
    const isLost = field === 'drop' || value === undefined || value === null;
    return (isLost ? others : { ...others, [field]: value }) as ChatMessage;
  };
}

/** Signatures with our mark are from another dialect: OpenAI-style vendors refuse them. */
function withoutForeignSignatures(details: unknown): unknown {
  if (!Array.isArray(details)) return details;
  const remaining = details.filter((detail) => {
    const { signature } = fieldsOf(detail);
    return !isText(signature) || ownSignature('anthropic', signature) !== undefined;
  });
  if (remaining.length === details.length) return details;
  return remaining.length > 0 ? remaining : undefined;
}

/**
 * Takes Gemini's signatures off calls: they are for Google's OpenAI-style endpoint, and some
 * vendors refuse the field.
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
  // With tools, a turn without this field is refused. Many clients do not keep it: an empty one
  // will do.
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

/** OpenAI refuses longer call ids; vLLM makes them. */
const callIdLengthMax = 40;

const shortenLongCallIds = shortenCallIds((id) => shortCallId(id, callIdLengthMax));
const shortenAllCallIds = shortenCallIds(nineCharacterCallId);

/** All system texts, joined, in front: some chat templates accept one system message only. */
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

/** An answer that was stopped before its first word. */
function isEmptyAnswer(message: ChatMessage): boolean {
  if (message.role !== 'assistant' || message.tool_calls || message.function_call) return false;
  const { content } = message;
  if (typeof content === 'string') return content === '';
  return !content?.some((part) => part.type !== 'text' || part.text !== '');
}

/** Put between tool results and the user's words; an answer must have words. */
const resultsSeen: ChatMessage = { role: 'assistant', content: 'I have the results.' };

function answerResults(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const isUnanswered = ({ role }: ChatMessage, at: number) =>
    role === 'user' && messages[at - 1]?.role === 'tool';
  if (!messages.some(isUnanswered)) return messages;
  return messages.flatMap((message, at) =>
    isUnanswered(message, at) ? [resultsSeen, message] : [message],
  );
}

const continueMessage: ChatMessage = { role: 'user', content: 'Continue.' };

/**
 * Asks the model to go on where the last message is its own or an instruction. Not after tool
 * calls, which wait for results, nor with `prefix`, with which Mistral goes on by itself.
 */
function continueLast(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const last = messages.at(-1);
  const isAnswer = last?.role === 'assistant' && !last.tool_calls && !('prefix' in last);
  return isAnswer || last?.role === 'system' ? [...messages, continueMessage] : messages;
}

/** Takes Anthropic's cache marks out of a request to a vendor that refuses them. */

type Unmark = (value: unknown) => unknown;

/**
 * Takes the mark off an object, or off each in a list, and off what it has under names of `inside`.
 */
function unmarking(inside: Readonly<Record<string, Unmark>> = {}): Unmark {
  const unmark: Unmark = (value) => {
    if (Array.isArray(value)) return sameIfUnchanged(value, value.map(unmark));
    if (!isObject(value)) return value;
    let bare = 'cache_control' in value ? withoutMark(value) : value;
    for (const [name, unmarkInner] of Object.entries(inside)) {
      const unmarked = unmarkInner(bare[name]);
      if (unmarked !== bare[name]) bare = { ...bare, [name]: unmarked };
    }
    return bare;
  };
  return unmark;
}

function withoutMark({ cache_control: _, ...bare }: Fields): Fields {
  return bare;
}

const unmarkAll = unmarking({
  messages: unmarking({ content: unmarking(), tool_calls: unmarking() }),
  tools: unmarking({ function: unmarking(), custom: unmarking() }),
});

/** The very same request where neither the body nor anything in it is marked. */
export function withoutMarks(request: OpenAiRequest): OpenAiRequest {
  const { body, source } = request;
  if (unmarkAll(body) === body) return request;
  const bare = unmarkAll(withExactNumbers(body, source)) as OpenAiRequest['body'];
  return { ...request, body: bare, source: null };
}
