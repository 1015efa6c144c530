/** Parses a Responses request into a prompt without using the gateway's code. */
import type {
  AssistantPart,
  Effort,
  ImagePart,
  Prompt,
  TextPart,
  ToolResultPart,
  Turn,
  UserPart,
} from '../../src/core/prompt.ts';
import type { UpstreamRequest } from '../../src/dialects/dialect.ts';
import { compact } from './random-prompts.ts';

interface Content {
  readonly type: string;
  readonly text?: string;
  readonly image_url?: string;
  readonly detail?: string;
  readonly file_data?: string;
  readonly file_url?: string;
  readonly filename?: string;
  readonly input_audio?: { readonly data: string; readonly format: string };
}

interface Item {
  readonly type?: string;
  readonly role?: string;
  readonly content?: readonly Content[];
  readonly call_id?: string;
  readonly name?: string;
  readonly arguments?: string;
  readonly output?: string | readonly Content[];
  readonly id?: string;
  readonly summary?: readonly { readonly text: string }[];
  readonly encrypted_content?: string;
}

interface Body {
  readonly input: readonly Item[];
  readonly tools?: readonly {
    readonly name: string;
    readonly description?: string;
    readonly parameters: Record<string, unknown>;
    readonly strict: boolean;
  }[];
  readonly tool_choice?: 'auto' | 'none' | 'required' | { readonly name: string };
  readonly parallel_tool_calls?: boolean;
  readonly max_output_tokens?: number;
  readonly temperature?: number;
  readonly top_p?: number;
  readonly text?: {
    readonly format: {
      readonly name: string;
      readonly schema: Record<string, unknown>;
      readonly strict?: boolean;
    };
  };
  readonly reasoning?: { readonly effort: Effort; readonly summary?: string };
  readonly user?: string;
  readonly stream?: boolean;
}

export function readResponsesRequest({ body: text }: UpstreamRequest): Prompt {
  const body = JSON.parse(String(text)) as Body;
  const { temperature, top_p: topP, reasoning, tool_choice: choice } = body;
  const format = body.text?.format;
  return {
    turns: readTurns(body.input),
    tools: (body.tools ?? []).map(({ name, description, parameters, strict }) =>
      compact({ name, description, parameters, strict }),
    ),
    toolChoice: typeof choice === 'object' ? { name: choice.name } : (choice ?? null),
    parallelTools: body.parallel_tool_calls ?? null,
    outputTokensMax: body.max_output_tokens ?? null,
    stop: [],
    json: format
      ? compact({ schema: format.schema, name: format.name, strict: format.strict })
      : null,
    reasoning: reasoning
      ? { effort: reasoning.effort, budgetTokens: null, visible: reasoning.summary === 'auto' }
      : null,
    sampling: compact({ temperature, topP }),
    user: body.user ?? null,
    stream: body.stream === true,
    choices: 1,
    unsupported: [],
  };
}

function readTurns(items: readonly Item[]): readonly Turn[] {
  const turns: { role: Turn['role']; parts: (UserPart | AssistantPart)[] }[] = [];
  for (const item of items) {
    const role = roleOf(item);
    const last = turns.at(-1);
    const parts = readItem(item);
    if (last?.role === role) last.parts.push(...parts);
    else turns.push({ role, parts });
  }
  return turns as Turn[];
}

function roleOf({ role, type }: Item): Turn['role'] {
  if (role === 'system' || role === 'user' || role === 'assistant') return role;
  return type === 'function_call_output' ? 'user' : 'assistant';
}

function readItem(item: Item): (UserPart | AssistantPart)[] {
  switch (item.type) {
    case 'function_call_output':
      return [readResult(item)];
    case 'function_call': {
      const { call_id: id = '', name = '', arguments: json = '' } = item;
      return [{ kind: 'tool_call', id, name, arguments: json }];
    }
    case 'reasoning': {
      const signature = `responses:${item.id}:${item.encrypted_content}`;
      const text = (item.summary ?? []).map((part) => part.text).join('');
      return [{ kind: 'reasoning', text, signature }];
    }
    default:
      return (item.content ?? []).map(readContent);
  }
}

function readContent(content: Content): TextPart | UserPart {
  const { type, text = '', image_url: url = '', detail, input_audio: audio } = content;
  switch (type) {
    case 'input_text':
    case 'output_text':
      return { kind: 'text', text };
    case 'input_image':
      return compact<ImagePart>({ kind: 'image', url, detail });
    case 'input_audio':
      return { kind: 'audio', data: audio?.data ?? '', format: audio?.format ?? '' };
    case 'input_file': {
      const source = { url: content.file_data ?? content.file_url ?? '' };
      return compact({ kind: 'document' as const, source, name: content.filename });
    }
    default:
      throw new Error(`Unknown content type ${type}.`);
  }
}

function readResult({ call_id: callId = '', output = '' }: Item): ToolResultPart {
  if (typeof output === 'string') {
    const isError = output.startsWith('Error: ');
    const text = isError ? output.slice(7) : output;
    return { kind: 'tool_result', callId, parts: [{ kind: 'text', text }], isError };
  }
  const isError = output[0]?.text === 'Error: ';
  const parts = output.slice(isError ? 1 : 0).map(readContent);
  return { kind: 'tool_result', callId, parts: parts as ToolResultPart['parts'], isError };
}
