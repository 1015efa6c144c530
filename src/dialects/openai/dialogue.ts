/** An OpenAI client's request in our own words, for upstreams that speak differently. */
import type {
  AssistantPart,
  CacheControl,
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
import { isObject } from '../../core/json.ts';
import { markSignature } from '../../core/signature.ts';
import type { ChatRequest } from './chat-request.ts';
import { type ChatBody, type ChatMessage, chatSchema, type FunctionTool } from './chat-schema.ts';

type MessageOf<R extends ChatMessage['role']> = Extract<ChatMessage, { role: R }>;

export function readDialogue({ body }: Pick<ChatRequest, 'body'>): Dialogue {
  const given = <T>(value: T | null | undefined): T | undefined => value ?? undefined;
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
      temperature: given(body.temperature),
      topP: given(body.top_p),
      topK: numberIn(body, 'top_k'),
      seed: given(body.seed),
      presencePenalty: given(body.presence_penalty),
      frequencyPenalty: given(body.frequency_penalty),
      logprobs: given(body.logprobs),
      topLogprobs: given(body.top_logprobs),
      logitBias: given(body.logit_bias),
    },
    user: body.user ?? null,
    stream: body.stream === true,
    choices: body.n ?? 1,
    foreign: Object.entries(body).flatMap(([name, value]) =>
      value === null || value === undefined || known.has(name) ? [] : [name],
    ),
  };
}

/** What the schema knows is said in our words or is ours; `top_k` is everybody's but OpenAI's. */
const known: ReadonlySet<string> = new Set([...Object.keys(chatSchema.properties), 'top_k']);

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

function cacheMark(holder: object): { cacheControl?: CacheControl } {
  const { cache_control: mark } = holder as { cache_control?: unknown };
  return isObject(mark) ? { cacheControl: mark } : {};
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
  const { content, refusal, tool_calls: calls } = message;
  const texts = typeof content === 'string' ? readTexts(content) : (content ?? []);
  const proofs = new Set((calls ?? []).flatMap(googleSignature).map(({ signature }) => signature));
  // A bare proof that stands with its call as well belongs there.
  const isWithCall = ({ text, signature }: ReasoningPart) => text === '' && proofs.has(signature);
  const thoughts = readReasoning(message).filter((thought) => !isWithCall(thought));
  // Calls that have their own take no other: without a text, what is left stood behind them.
  const isBehind = ({ text, signature }: ReasoningPart) =>
    proofs.size > 0 && texts.length === 0 && text === '' && signature !== undefined;
  return [
    ...thoughts.filter((thought) => !isBehind(thought)),
    ...texts.map((part): AssistantPart => {
      if ('kind' in part) return part;
      return part.type === 'refusal'
        ? { kind: 'refusal', text: part.refusal }
        : { kind: 'text', text: part.text, ...cacheMark(part) };
    }),
    ...(refusal ? [{ kind: 'refusal' as const, text: refusal }] : []),
    ...(calls ?? []).flatMap((call): AssistantPart[] => [
      ...googleSignature(call),
      {
        kind: 'tool_call',
        id: call.id,
        name: call.function.name,
        arguments: call.function.arguments,
      },
    ]),
    ...thoughts.filter(isBehind),
  ];
}

/**
 * Thoughts come back as `reasoning_details`, in as many pieces as they were streamed in, or as bare
 * text from clients that keep nothing else.
 */
function readReasoning(message: MessageOf<'assistant'>): readonly ReasoningPart[] {
  const { reasoning_details: details } = message as { reasoning_details?: unknown };
  const pieces = Array.isArray(details) ? details.filter(isObject) : [];
  const thoughts = new Map<unknown, ReasoningPart>();
  for (const [at, piece] of pieces.entries()) {
    const place = piece.index ?? at;
    const { text = '', summary, signature, data } = piece;
    const before = thoughts.get(place) ?? { kind: 'reasoning', text: '' };
    const more = typeof text === 'string' && text !== '' ? text : summary;
    thoughts.set(place, {
      ...before,
      text: before.text + (typeof more === 'string' ? more : ''),
      ...(typeof signature === 'string' && signature !== '' ? { signature } : {}),
      ...(piece.type === 'reasoning.encrypted' && typeof data === 'string'
        ? { redacted: data }
        : {}),
    });
  }
  if (thoughts.size > 0) return [...thoughts.values()];
  const text = message.reasoning ?? message.reasoning_content;
  return text ? [{ kind: 'reasoning', text }] : [];
}

/** Where Google's own OpenAI-style endpoint puts the signature of a call. */
function googleSignature(call: object): readonly ReasoningPart[] {
  const { extra_content: extra } = call as { extra_content?: unknown };
  const google = isObject(extra) ? extra.google : undefined;
  const signature = isObject(google) ? google.thought_signature : undefined;
  if (typeof signature !== 'string') return [];
  return [{ kind: 'reasoning', text: '', signature: markSignature('gemini', signature) }];
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
    ...(description ? { description } : {}),
    ...(strict === null || strict === undefined ? {} : { strict }),
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
    ...(strict === null || strict === undefined ? {} : { strict }),
  };
}

function readReasoningWish({
  reasoning,
  reasoning_effort: plain,
}: ChatRequest['body']): ReasoningWish | null {
  const asked: Effort | null = plain ?? reasoning?.effort ?? null;
  if (asked === null && !reasoning) return null;
  return {
    effort: asked ?? (reasoning?.enabled === false ? 'none' : null),
    budgetTokens: reasoning?.budget_tokens ?? reasoning?.max_tokens ?? null,
    visible: reasoning?.exclude !== true,
  };
}
