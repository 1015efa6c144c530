/** An OpenAI client's request in our own words, for upstreams that speak differently. */
import type {
  AssistantPart,
  Dialogue,
  Effort,
  JsonWish,
  ReasoningPart,
  ReasoningWish,
  TextPart,
  Tool,
  ToolChoice,
  ToolResultPart,
  Turn,
  UserPart,
} from '../../core/dialogue.ts';
import { isObject, isText } from '../../core/json.ts';
import { cacheMark } from '../ask/cache-marks.ts';
import { unknownFields } from '../ask/unknown-fields.ts';
import type { ChatRequest } from './chat-request.ts';
import { type ChatBody, type ChatMessage, chatSchema, type FunctionTool } from './chat-schema.ts';
import { googleSignature } from './google-signature.ts';

type MessageOf<R extends ChatMessage['role']> = Extract<ChatMessage, { role: R }>;

export function readDialogue({ body }: Pick<ChatRequest, 'body'>): Dialogue {
  return {
    turns: readTurns(body.messages),
    tools: (body.tools ?? []).filter(isFunction).map(readTool),
    toolChoice: readToolChoice(body.tool_choice),
    parallelTools: body.parallel_tool_calls ?? null,
    outputTokensMax: body.max_completion_tokens ?? body.max_tokens ?? null,
    stop: typeof body.stop === 'string' ? [body.stop] : (body.stop ?? []),
    json: readJsonWish(body.response_format),
    reasoning: readReasoningWish(body),
    sampling: {
      temperature: body.temperature ?? undefined,
      topP: body.top_p ?? undefined,
      topK: numberIn(body, 'top_k'),
      seed: body.seed ?? undefined,
      presencePenalty: body.presence_penalty ?? undefined,
      frequencyPenalty: body.frequency_penalty ?? undefined,
      logprobs: body.logprobs ?? undefined,
      topLogprobs: body.top_logprobs ?? undefined,
      logitBias: body.logit_bias ?? undefined,
    },
    user: body.user ?? null,
    stream: body.stream === true,
    choices: body.n ?? 1,
    foreign: Object.keys(unknownFields(body, known)),
  };
}

/** What the schema knows is said in our words or is ours; `top_k` is everybody's but OpenAI's. */
const known = { ...chatSchema.properties, top_k: null };

function numberIn(body: Readonly<Record<string, unknown>>, name: string): number | undefined {
  const value = body[name];
  return typeof value === 'number' ? value : undefined;
}

function readTurns(messages: readonly ChatMessage[]): readonly Turn[] {
  const turns: Turn[] = [];
  let results: ToolResultPart[] = [];
  const endResults = (said: readonly UserPart[]) => {
    if (results.length + said.length > 0)
      turns.push({ role: 'user', parts: [...results, ...said] });
    results = [];
  };
  for (const message of messages) {
    if (message.role === 'tool') {
      results.push(readToolResult(message));
      continue;
    }
    // What the user says behind results of tools is one turn with them.
    endResults(message.role === 'user' ? readUserParts(message.content) : []);
    if (message.role === 'assistant') {
      turns.push({ role: 'assistant', parts: readAssistant(message) });
    } else if (message.role !== 'user') {
      turns.push({ role: 'system', parts: readTexts(message.content) });
    }
  }
  endResults([]);
  return turns;
}

function readTexts(content: string | readonly { text: string }[]): readonly TextPart[] {
  if (typeof content === 'string') return content === '' ? [] : [{ kind: 'text', text: content }];
  return content.map((part) => ({ kind: 'text', text: part.text, ...cacheMark(part) }));
}

function readUserParts(content: MessageOf<'user'>['content']): readonly UserPart[] {
  if (typeof content === 'string') return readTexts(content);
  return content.map(readUserPart);
}

type UserContent = Exclude<MessageOf<'user'>['content'], string>[number];

function readUserPart(part: UserContent): UserPart {
  switch (part.type) {
    case 'text':
      return { kind: 'text', text: part.text, ...cacheMark(part) };
    case 'image_url': {
      const { url, detail } = part.image_url;
      return { kind: 'image', url, ...(detail ? { detail } : {}), ...cacheMark(part) };
    }
    case 'input_audio':
      return { kind: 'audio', data: part.input_audio.data, format: part.input_audio.format };
    case 'file': {
      const { file_data: data, file_id: id, filename } = part.file;
      const source = data ? { url: data } : { fileId: id ?? '' };
      return {
        kind: 'document',
        source,
        ...(filename ? { name: filename } : {}),
        ...cacheMark(part),
      };
    }
  }
}

function readToolResult(message: MessageOf<'tool'>): ToolResultPart {
  const { content } = message;
  const parts: ToolResultPart['parts'] =
    typeof content === 'string'
      ? readTexts(content)
      : content.map((part) =>
          part.type === 'text'
            ? { kind: 'text', text: part.text, ...cacheMark(part) }
            : { kind: 'image', url: part.image_url.url },
        );
  const mark = cacheMark(message);
  return { kind: 'tool_result', callId: message.tool_call_id, parts, isError: false, ...mark };
}

function readAssistant(message: MessageOf<'assistant'>): readonly AssistantPart[] {
  const { content, refusal } = message;
  const said = typeof content === 'string' ? readTexts(content) : (content ?? []).map(readSaid);
  const calls = (message.tool_calls ?? []).flatMap(readCall);
  const proofs = new Set(
    calls.flatMap((part) => (part.kind === 'reasoning' ? part.signature : [])),
  );
  // A bare proof that stands with its call as well belongs there.
  const thoughts = readReasoning(message).filter(
    ({ text, signature }) => text !== '' || !proofs.has(signature),
  );
  // Calls that have their own take no other: without a text, what is left stood behind them.
  const isBehind = ({ text, signature }: ReasoningPart) =>
    proofs.size > 0 && said.length === 0 && text === '' && signature !== undefined;
  return [
    ...thoughts.filter((thought) => !isBehind(thought)),
    ...said,
    ...(refusal ? [{ kind: 'refusal' as const, text: refusal }] : []),
    ...calls,
    ...thoughts.filter(isBehind),
  ];
}

type AssistantMessage = MessageOf<'assistant'>;
type AssistantContent = Exclude<NonNullable<AssistantMessage['content']>, string>[number];

function readSaid(part: AssistantContent): AssistantPart {
  if (part.type === 'refusal') return { kind: 'refusal', text: part.refusal };
  return { kind: 'text', text: part.text, ...cacheMark(part) };
}

/** A call, behind the proof that stands on it. */
function readCall(call: NonNullable<AssistantMessage['tool_calls']>[number]): AssistantPart[] {
  const { name, arguments: json } = call.function;
  const read: AssistantPart = { kind: 'tool_call', id: call.id, name, arguments: json };
  const signature = googleSignature(call);
  return signature === undefined ? [read] : [{ kind: 'reasoning', text: '', signature }, read];
}

/**
 * Thoughts come back as `reasoning_details`, in as many pieces as they were streamed in, or as bare
 * text from clients that keep nothing else.
 */
function readReasoning(message: AssistantMessage): readonly ReasoningPart[] {
  const { reasoning_details: details } = message as { reasoning_details?: unknown };
  const thoughts = new Map<unknown, ReasoningPart>();
  const pieces = Array.isArray(details) ? details.filter(isObject) : [];
  for (const [at, piece] of pieces.entries()) {
    const place = piece.index ?? at;
    const { signature, data } = piece;
    const before = thoughts.get(place) ?? { kind: 'reasoning', text: '' };
    const more = [piece.text, piece.summary].find(isText) ?? '';
    thoughts.set(place, {
      ...before,
      text: before.text + more,
      ...(isText(signature) ? { signature } : {}),
      ...(piece.type === 'reasoning.encrypted' && typeof data === 'string'
        ? { redacted: data }
        : {}),
    });
  }
  if (thoughts.size > 0) return [...thoughts.values()];
  const text = message.reasoning ?? message.reasoning_content;
  return text ? [{ kind: 'reasoning', text }] : [];
}

/** Searches are the gateway's own business. */
function isFunction(tool: NonNullable<ChatBody['tools']>[number]): tool is FunctionTool {
  return tool.type === 'function';
}

function readTool(tool: FunctionTool): Tool {
  const { name, description, parameters, strict } = tool.function;
  return {
    name,
    parameters: parameters ? { ...parameters } : null,
    description: description || undefined,
    strict: strict ?? undefined,
    ...cacheMark(tool),
  };
}

function readToolChoice(choice: ChatBody['tool_choice']): ToolChoice | null {
  if (choice === null || choice === undefined || typeof choice === 'string') return choice ?? null;
  return { name: choice.function.name };
}

function readJsonWish(format: ChatBody['response_format']): JsonWish | null {
  if (format?.type === 'json_object') return { schema: null, name: 'response' };
  if (format?.type !== 'json_schema') return null;
  const { name, schema, strict } = format.json_schema;
  return {
    schema: { ...schema },
    name,
    strict: strict ?? undefined,
  };
}

/** In either of the places where clients say it. */
export function askedEffort(body: ChatRequest['body']): Effort | null {
  const { reasoning, reasoning_effort: plain } = body;
  return plain ?? reasoning?.effort ?? (reasoning?.enabled === false ? 'none' : null);
}

function readReasoningWish(body: ChatRequest['body']): ReasoningWish | null {
  const { reasoning } = body;
  const effort = askedEffort(body);
  if (effort === null && !reasoning) return null;
  return {
    effort,
    budgetTokens: reasoning?.budget_tokens ?? reasoning?.max_tokens ?? null,
    visible: reasoning?.exclude !== true,
  };
}
