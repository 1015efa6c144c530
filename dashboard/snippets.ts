/** Writes requests as shell commands and SDK code. */

import type { ToolCall } from './shapes.ts';

export interface ImagePart {
  readonly type: 'image_url';
  readonly image_url: { readonly url: string };
}
export interface TextPart {
  readonly type: 'text';
  readonly text: string;
}
export type Message =
  | { readonly role: 'system'; readonly content: string }
  | { readonly role: 'user'; readonly content: string | readonly (TextPart | ImagePart)[] }
  | {
      readonly role: 'assistant';
      readonly content: string | null;
      readonly tool_calls?: readonly ToolCall[];
    }
  | { readonly role: 'tool'; readonly tool_call_id: string; readonly content: string };

export interface ChatBody {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly tools?: readonly unknown[];
  /** Skills whose instructions the gateway adds to the prompt. */
  readonly skills?: readonly string[];
  readonly temperature?: number;
  readonly max_tokens?: number;
  readonly reasoning?: { readonly effort: string };
}

const keyVariable = 'TOLLGATE_KEY';

/** Quotes a shell argument. A quote inside becomes '\'': close, escaped quote, reopen. */
function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

export function curl(method: string, path: string, body?: object, key = `$${keyVariable}`): string {
  // curl sends a POST by default if there is a body.
  const isImplied = method === (body ? 'POST' : 'GET');
  const lines = [
    `curl ${isImplied ? '' : `-X ${method} `}${location.origin}${path}`,
    `  -H "Authorization: Bearer ${key}"`,
  ];
  if (body) {
    lines.push(
      '  -H "Content-Type: application/json"',
      `  -d ${quoteForShell(JSON.stringify(body))}`,
    );
  }
  return lines.join(' \\\n');
}

/** Minimal requests for models without chat, by feature. */
const samples: Readonly<Record<string, (model: string) => string>> = {
  embeddings: (model) => curl('POST', '/v1/embeddings', { model, input: 'Hello!' }),
  speech: (model) => {
    const body = { model, input: 'Hello!', voice: 'alloy' };
    return `${curl('POST', '/v1/audio/speech', body)} \\\n  --output answer.mp3`;
  },
  transcription: (model) =>
    // curl sends a POST by default if there is a form.
    [
      curl('GET', '/v1/audio/transcriptions'),
      `  -F ${quoteForShell(`model=${model}`)}`,
      '  -F file=@recording.mp3',
    ].join(' \\\n'),
  image_generation: (model) =>
    curl('POST', '/v1/images/generations', { model, prompt: 'A toll gate at dawn' }),
};

export function sampleCurl(model: string, features: readonly string[]): string | undefined {
  const feature = features.find((name) => Object.hasOwn(samples, name));
  return feature === undefined ? undefined : samples[feature]?.(model);
}

export function chatCurl(model = 'demo/chat', key?: string): string {
  const body = { model, messages: [{ role: 'user', content: 'Hello!' }] };
  return curl('POST', '/v1/chat/completions', body, key);
}

export function openAiSnippet(body: ChatBody): string {
  return `import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: '${location.origin}/v1',
  apiKey: process.env.${keyVariable},
});

const stream = await client.chat.completions.create(${indented({ ...body, stream: true })});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? '');
}`;
}

export function anthropicSnippet(body: ChatBody): string {
  return `import Anthropic from '@anthropic-ai/sdk';

const client = new Anthropic({
  baseURL: '${location.origin}/v1/anthropic',
  apiKey: process.env.${keyVariable},
});

const stream = client.messages.stream(${indented(anthropicBody(body))});
stream.on('text', (text) => process.stdout.write(text));
await stream.finalMessage();`;
}

function indented(value: object): string {
  return JSON.stringify(value, null, 2);
}

/** Anthropic's format requires a limit; this one is enough for a chat. */
const defaultMaxTokens = 1_024;

function anthropicBody(body: ChatBody): object {
  const { model, messages, tools, skills, temperature, max_tokens, reasoning } = body;
  const system = messages.flatMap((message) =>
    message.role === 'system' ? [message.content] : [],
  );
  return {
    model,
    max_tokens: max_tokens ?? defaultMaxTokens,
    ...(system.length > 0 ? { system: system.join('\n\n') } : {}),
    ...(temperature === undefined ? {} : { temperature: Math.min(1, temperature) }),
    messages: messages.flatMap(anthropicMessage),
    ...(tools ? { tools: tools.map(anthropicTool) } : {}),
    ...(skills ? { skills } : {}),
    ...(reasoning ? { output_config: { effort: reasoning.effort } } : {}),
  };
}

function anthropicMessage(message: Message): object[] {
  switch (message.role) {
    case 'system':
      return [];
    case 'user':
      return [{ role: 'user', content: userContent(message.content) }];
    case 'assistant':
      return [{ role: 'assistant', content: assistantContent(message) }];
    case 'tool': {
      const { tool_call_id, content } = message;
      return [
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: tool_call_id, content }] },
      ];
    }
  }
}

function userContent(content: string | readonly (TextPart | ImagePart)[]): unknown {
  if (typeof content === 'string') return content;
  return content.map((part) => {
    if (part.type === 'text') return part;
    const { url } = part.image_url;
    const [, media_type, data] = /^data:([^;,]+);base64,(.*)$/s.exec(url) ?? [];
    const source = data ? { type: 'base64', media_type, data } : { type: 'url', url };
    return { type: 'image', source };
  });
}

function assistantContent({
  content,
  tool_calls = [],
}: Extract<Message, { role: 'assistant' }>): object[] {
  return [
    ...(content ? [{ type: 'text', text: content }] : []),
    ...tool_calls.map(({ id, function: { name, arguments: text } }) => ({
      type: 'tool_use',
      id,
      name,
      input: parseArguments(text),
    })),
  ];
}

function parseArguments(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

function anthropicTool(tool: unknown): unknown {
  const { function: definition } = tool as {
    function?: { name?: unknown; description?: unknown; parameters?: unknown };
  };
  if (!definition) return tool;
  const { name, description, parameters } = definition;
  return { name, description, input_schema: parameters ?? { type: 'object' } };
}
