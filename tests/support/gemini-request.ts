/** Parses a Gemini request into a prompt without using the gateway's code. */
import type {
  AssistantPart,
  Prompt,
  Sampling,
  ToolChoice,
  ToolResultPart,
  Turn,
  UserPart,
} from '../../src/core/prompt.ts';
import type { UpstreamRequest } from '../../src/dialects/dialect.ts';
import { compact } from './random-prompts.ts';

interface Inline {
  readonly mimeType: string;
  readonly data: string;
}

interface Part {
  readonly text?: string;
  readonly thought?: boolean;
  readonly thoughtSignature?: string;
  readonly inlineData?: Inline;
  readonly functionCall?: { readonly name: string; readonly args: object };
  readonly functionResponse?: {
    readonly name: string;
    readonly response: { readonly output?: string; readonly error?: string };
    readonly parts?: readonly { readonly inlineData: Inline }[];
  };
}

interface Body {
  readonly systemInstruction?: { readonly parts: readonly { readonly text: string }[] };
  readonly contents: readonly { readonly role: string; readonly parts: readonly Part[] }[];
  readonly tools?: readonly [
    {
      readonly functionDeclarations: readonly {
        readonly name: string;
        readonly description?: string;
        readonly parametersJsonSchema: Record<string, unknown>;
      }[];
    },
  ];
  readonly toolConfig?: {
    readonly functionCallingConfig: {
      readonly mode: string;
      readonly allowedFunctionNames?: readonly string[];
    };
  };
  readonly generationConfig: Sampling & {
    readonly maxOutputTokens?: number;
    readonly stopSequences?: readonly string[];
    readonly responseMimeType?: string;
    readonly responseJsonSchema?: Record<string, unknown>;
    readonly thinkingConfig?: {
      readonly thinkingLevel: 'low' | 'medium' | 'high';
      readonly includeThoughts?: boolean;
    };
  };
}

type Named = Readonly<{ id: string; name: string }>;

export function readGeminiRequest({ path, body: text }: UpstreamRequest): Prompt {
  const body = JSON.parse(String(text)) as Body;
  const config = body.generationConfig;
  const { temperature, topP, topK, seed, presencePenalty, frequencyPenalty } = config;
  const sampling = { temperature, topP, topK, seed, presencePenalty, frequencyPenalty };
  const declarations = body.tools?.[0].functionDeclarations ?? [];
  const schema = config.responseJsonSchema ?? null;
  const thinking = config.thinkingConfig;
  return {
    turns: readTurns(body),
    tools: declarations.map(({ name, description, parametersJsonSchema: parameters }) =>
      compact({ name, description, parameters }),
    ),
    toolChoice: readToolChoice(body.toolConfig),
    parallelTools: null,
    outputTokensMax: config.maxOutputTokens ?? null,
    stop: config.stopSequences ?? [],
    json: config.responseMimeType === 'application/json' ? { schema, name: 'response' } : null,
    reasoning: thinking
      ? {
          effort: thinking.thinkingLevel,
          budgetTokens: null,
          visible: thinking.includeThoughts === true,
        }
      : null,
    sampling: compact(sampling),
    user: null,
    stream: path.endsWith(':streamGenerateContent?alt=sse'),
    choices: 1,
    unsupported: [],
  };
}

function readToolChoice(config: Body['toolConfig']): ToolChoice | null {
  const { mode, allowedFunctionNames: [only] = [] } = config?.functionCallingConfig ?? {
    mode: '',
  };
  if (mode === 'ANY') return only === undefined ? 'required' : { name: only };
  if (mode === 'NONE') return 'none';
  return mode === 'AUTO' ? 'auto' : null;
}

function readTurns({ systemInstruction, contents }: Body): readonly Turn[] {
  const turns: Turn[] = [];
  if (systemInstruction) {
    const parts = systemInstruction.parts.map(({ text }) => ({ kind: 'text' as const, text }));
    turns.push({ role: 'system', parts });
  }
  let callCount = 0;
  let open: Named[] = [];
  for (const [index, { role, parts }] of contents.entries()) {
    const expected = index % 2 === 0 ? 'user' : 'model';
    if (role !== expected) throw new Error(`content ${index} has the role ${role}`);
    if (role === 'user') {
      turns.push({ role: 'user', parts: parts.map((part) => readUserPart(part, open)) });
      if (open.length > 0) throw new Error('a tool call has no result');
      continue;
    }
    const read = readModelParts(parts, callCount);
    open = read.filter((part) => part.kind === 'tool_call');
    callCount += open.length;
    turns.push({ role: 'assistant', parts: read });
  }
  return turns;
}

/** Gemini matches results with tool calls only by their order. */
function readUserPart(part: Part, open: Named[]): UserPart {
  if (part.functionResponse) return readResult(part.functionResponse, open.shift());
  if (part.inlineData) return readInline(part.inlineData);
  if (!part.text) throw new Error('a part is empty');
  return { kind: 'text', text: part.text };
}

function readResult(
  { name, response, parts = [] }: NonNullable<Part['functionResponse']>,
  call: Named | undefined,
): ToolResultPart {
  if (call?.name !== name)
    throw new Error(`the result of ${name} is in the position of ${call?.name}`);
  const text = response.error ?? response.output ?? '';
  const files = parts.map(({ inlineData }) => readInline(inlineData));
  return {
    kind: 'tool_result',
    callId: call.id,
    parts: [{ kind: 'text', text }, ...files] as ToolResultPart['parts'],
    isError: response.error !== undefined,
  };
}

function readInline({ mimeType, data }: Inline): UserPart {
  const url = `data:${mimeType};base64,${data}`;
  if (mimeType.startsWith('image/')) return { kind: 'image', url };
  if (mimeType.startsWith('audio/')) return { kind: 'audio', data, format: mimeType.slice(6) };
  return { kind: 'document', source: { url } };
}

/** A signature belongs to the first unsigned reasoning. Otherwise, it becomes empty reasoning. */
function readModelParts(parts: readonly Part[], callCount: number): AssistantPart[] {
  const read: AssistantPart[] = [];
  let number = callCount;
  const sign = (data: string) => {
    const signature = `gemini:${data}`;
    const at = read.findIndex((part) => part.kind === 'reasoning' && part.signature === undefined);
    const unsigned = read[at];
    if (unsigned?.kind === 'reasoning') read[at] = { ...unsigned, signature };
    else read.push({ kind: 'reasoning', text: '', signature });
  };
  for (const { text, thought, thoughtSignature, functionCall } of parts) {
    if (thoughtSignature !== undefined) sign(thoughtSignature);
    if (functionCall) {
      const { name, args } = functionCall;
      read.push({
        kind: 'tool_call',
        id: `call_${number}`,
        name,
        arguments: JSON.stringify(args),
      });
      number += 1;
    } else if (thought) read.push({ kind: 'reasoning', text: text ?? '' });
    else if (text) read.push({ kind: 'text', text });
  }
  return read;
}
