/** A form as it arrives: fields with their text, files as streams. */
export type FormPart = FormField | FormFile;

export interface FormField {
  readonly kind: 'field';
  readonly name: string;
  readonly value: string;
}

export interface FormFile {
  readonly kind: 'file';
  readonly name: string;
  /** As the client wrote it: a claim, never a path. */
  readonly filename: string;
  readonly contentType: string;
  /** The bytes as they come; to be read once. */
  readonly chunks: AsyncIterable<Uint8Array>;
}
