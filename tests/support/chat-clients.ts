/** Chat operations as the clients of every dialect request them, for tests without a gateway. */
import type { Recording } from '../../src/core/recording.ts';
import { readMessagesRequest } from '../../src/dialects/anthropic/client/request.ts';
import { anthropicClientRequest } from '../../src/dialects/anthropic/client-request.ts';
import { readChatRequest } from '../../src/dialects/openai-chat/client/request.ts';
import { openAiClientRequest } from '../../src/dialects/openai-chat/client-request.ts';
import { readResponsesRequest } from '../../src/dialects/responses/client/request.ts';
import { responsesClientRequest } from '../../src/dialects/responses/client-request.ts';
import { ChatOperation } from '../../src/operations/chat/chat-operation.ts';
import { readAnthropicAnswer, readOpenAiAnswer, readResponsesAnswer } from './client-answers.ts';

export const messages = [{ role: 'user' as const, content: 'Hello!' }];
export const clients = {
  openai: {
    see: readOpenAiAnswer,
    operation(stream: boolean, more: object = {}) {
      const body = { model: 'acme/large', messages, stream, ...more };
      return new ChatOperation(openAiClientRequest(readChatRequest(body, source(body))));
    },
  },
  anthropic: {
    see: readAnthropicAnswer,
    operation(stream: boolean, more: object = {}) {
      const body = { model: 'acme/large', messages, stream, max_tokens: 100, ...more };
      const request = readMessagesRequest(body, source(body));
      return new ChatOperation(anthropicClientRequest(request, new Headers()));
    },
  },
  responses: {
    see: readResponsesAnswer,
    operation(stream: boolean, more: object = {}) {
      const body = { model: 'acme/large', input: 'Hello!', stream, ...more };
      return new ChatOperation(responsesClientRequest(readResponsesRequest(body, source(body))));
    },
  },
};

export function source(body: object) {
  const text = JSON.stringify(body);
  return { text, bytes: new TextEncoder().encode(text) };
}

export function recorded(dialect: string, form: Recording['form'], text: string): Recording {
  return { dialect, form, text, model: 'acme/large', provider: 'acme' };
}
