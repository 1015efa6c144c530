/** Moves images out of tool results, because OpenAI accepts images only from users. */
import type { ChatMessage } from '../client/schema.ts';

type Role = ChatMessage['role'];
type MessageOf<R extends Role> = Extract<ChatMessage, { role: R }>;
type ToolMessage = MessageOf<'tool'>;
type UserPart = Exclude<MessageOf<'user'>['content'], string>[number];

/**
 * Moves the images of tool results to the user message after them, which is added if there is none.
 * Returns the same list if no result has an image.
 */
export function moveToolImages(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  if (!messages.some(hasImages)) return messages;
  const moved: ChatMessage[] = [];
  let images: UserPart[] = [];
  for (const message of messages) {
    if (message.role === 'tool') {
      images.push(...imagesIn(message));
      moved.push(hasImages(message) ? withNote(message) : message);
    } else if (images.length > 0 && message.role === 'user') {
      const { content } = message;
      const parts = typeof content === 'string' ? [textPart(content)] : content;
      moved.push({ ...message, content: [...images, ...parts] });
      images = [];
    } else {
      if (images.length > 0) moved.push({ role: 'user', content: images });
      images = [];
      moved.push(message);
    }
  }
  if (images.length > 0) moved.push({ role: 'user', content: images });
  return moved;
}

function hasImages(message: ChatMessage): message is ToolMessage {
  return message.role === 'tool' && imagesIn(message).length > 0;
}

function imagesIn({ content }: ToolMessage) {
  return typeof content === 'string' ? [] : content.filter((part) => part.type === 'image_url');
}

function textPart(text: string) {
  return { type: 'text' as const, text };
}

/** Replaces the images by a note, because a result may not be empty. */
function withNote(message: ToolMessage): ToolMessage {
  const texts =
    typeof message.content === 'string'
      ? []
      : message.content.filter((part) => part.type === 'text');
  return { ...message, content: [...texts, textPart(attachedNote(imagesIn(message).length))] };
}

/** What a tool result says about the parts that follow in a message of the user. */
export function attachedNote(count: number): string {
  return `(${count} attached below)`;
}
