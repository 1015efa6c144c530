import { useRef, useState } from 'preact/hooks';
import { ErrorNote } from '../components/feedback.tsx';
import { Form } from '../components/field.tsx';
import { Icon } from '../components/icon.tsx';
import type { ImagePart, Message } from '../snippets.ts';

const megabyte = 1024 * 1024;
const imageBytesMax = 5 * megabyte;
const imagesMax = 4;
/** A request can be up to 20 MB including text, and base64 makes images a third larger. */
const totalImageBytesMax = 14 * megabyte;

interface ComposerProps {
  /** The size of the images in the conversation, which is sent with every message. */
  readonly earlierBytes: number;
  readonly draft: string;
  readonly setDraft: (text: string) => void;
  readonly conversation: {
    readonly running: boolean;
    sendMessage(message: Message): void;
    stop(): void;
  };
  readonly acceptsImages: boolean;
}

interface ReadFile {
  readonly file: File;
  readonly dataUrl: string;
}

interface Attachment extends ReadFile {
  readonly preview: string;
}

async function readAttachment(file: File): Promise<ReadFile> {
  if (file.size > imageBytesMax)
    throw new Error(`${file.name} exceeds 5 MB. Choose a smaller image.`);
  const dataUrl = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`Can't read ${file.name}.`));
    reader.readAsDataURL(file);
  });
  return { file, dataUrl };
}

/** Returns the total file size of the images in messages. */
export function imageBytesIn(messages: readonly Message[]): number {
  let bytes = 0;
  for (const { content } of messages) {
    for (const part of Array.isArray(content) ? content : []) {
      if (part.type === 'image_url') bytes += bytesOf(part.image_url.url);
    }
  }
  return bytes;
}

/** Returns the decoded size of a base64 data URL. */
function bytesOf(dataUrl: string): number {
  const padding = dataUrl.indexOf('=', dataUrl.length - 2);
  const end = padding < 0 ? dataUrl.length : padding;
  return Math.floor(((end - dataUrl.indexOf(',') - 1) * 3) / 4);
}

function checkTotalSize(files: readonly ReadFile[], earlierBytes: number): void {
  const bytes = files.reduce((sum, { file }) => sum + file.size, earlierBytes);
  if (bytes <= totalImageBytesMax) return;
  const which = earlierBytes > 0 ? 'The images of this conversation' : 'The images';
  const total = (bytes / megabyte).toFixed(1);
  throw new Error(`${which} are ${total} MB in total. The limit is 14 MB per request.`);
}

function messageOf(text: string, attachments: readonly Attachment[]): Message {
  if (attachments.length === 0) return { role: 'user', content: text };
  const images = attachments.map(
    ({ dataUrl }): ImagePart => ({ type: 'image_url', image_url: { url: dataUrl } }),
  );
  return { role: 'user', content: [{ type: 'text', text }, ...images] };
}

export function Composer({
  earlierBytes,
  draft,
  setDraft,
  conversation,
  acceptsImages,
}: ComposerProps) {
  const [attachments, setAttachments] = useState<readonly Attachment[]>([]);
  const [problem, setProblem] = useState<string>();
  const submit = () => {
    if (draft.trim() === '' || conversation.running) return;
    conversation.sendMessage(messageOf(draft, acceptsImages ? attachments : []));
    setDraft('');
    setAttachments([]);
  };
  const add = (files: readonly File[]) => {
    setProblem(undefined);
    Promise.all(files.slice(0, imagesMax - attachments.length).map(readAttachment))
      .then((more) => {
        checkTotalSize([...attachments, ...more], earlierBytes);
        const withPreview = more.map((one) => ({ ...one, preview: URL.createObjectURL(one.file) }));
        setAttachments([...attachments, ...withPreview]);
      })
      .catch((error: Error) => setProblem(error.message));
  };
  return (
    <Form class="composer" onSubmit={submit}>
      <Attachments
        attachments={attachments}
        onRemove={(removed) => setAttachments(attachments.filter((p) => p !== removed))}
      />
      <ErrorNote message={problem} />
      <textarea
        aria-label="Your message"
        rows={3}
        value={draft}
        placeholder="Type a message. Enter sends it, Shift+Enter starts a new line."
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          submit();
        }}
      />
      <div class="buttons">
        {acceptsImages && <Attach onFiles={add} />}
        {conversation.running ? (
          <button type="button" class="danger" onClick={conversation.stop}>
            <Icon name="stop" />
            Stop
          </button>
        ) : (
          <button type="submit" class="primary" disabled={draft.trim() === ''}>
            <Icon name="send" />
            Send
          </button>
        )}
      </div>
    </Form>
  );
}

function Attach({ onFiles }: { readonly onFiles: (files: readonly File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        class="visually-hidden"
        type="file"
        accept="image/png,image/jpeg,image/webp,image/gif"
        multiple
        tabIndex={-1}
        aria-label="Images to attach"
        onChange={(event) => {
          onFiles([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = '';
        }}
      />
      <button type="button" class="secondary" onClick={() => input.current?.click()}>
        <Icon name="image" />
        Attach images
      </button>
    </>
  );
}

interface AttachmentsProps {
  readonly attachments: readonly Attachment[];
  readonly onRemove: (attachment: Attachment) => void;
}

function Attachments({ attachments, onRemove }: AttachmentsProps) {
  if (attachments.length === 0) return null;
  return (
    <ul class="attachments">
      {attachments.map((attachment) => (
        <li key={attachment.preview}>
          <Preview attachment={attachment} />
          <button
            type="button"
            class="secondary remove-attachment"
            aria-label={`Remove ${attachment.file.name}`}
            onClick={() => onRemove(attachment)}
          >
            <Icon name="close" />
          </button>
        </li>
      ))}
    </ul>
  );
}

/** Revokes the object URL once the image is loaded, because it keeps the file in memory. */
function Preview({ attachment: { preview, file } }: { readonly attachment: Attachment }) {
  const release = () => URL.revokeObjectURL(preview);
  return <img src={preview} alt={file.name} onLoad={release} onError={release} />;
}
