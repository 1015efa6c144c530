import { useState } from 'preact/hooks';
import { jobTextLengthMax } from '../../src/core/bounds.ts';
import { requestData, requestJson } from '../api.ts';
import { Dialog } from '../components/dialog.tsx';
import { Busy, Loading, NoModel } from '../components/feedback.tsx';
import { AreaField, Form, SelectField, TextField } from '../components/field.tsx';
import { FormEnd } from '../components/form-end.tsx';
import { bytes, count } from '../format.ts';
import { useAction, useLoad } from '../load.ts';
import type { Model } from '../shapes.ts';

interface JobFormProps {
  readonly routingKey: string;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

export function JobForm({ routingKey, onDone, onClose }: JobFormProps) {
  const loaded = useLoad('job models', async (signal) => {
    const models = await requestData<Model[]>('/v1/models', { key: routingKey, signal });
    return models.filter(({ architecture }) => isAudio(architecture.features));
  });
  const { data } = loaded;
  return (
    <Dialog title="Start a job" onClose={onClose}>
      <Loading loaded={loaded} text="Loading models…" />
      {data?.length === 0 && <NoModel kind="audio" />}
      {data && data.length > 0 && (
        <Fields models={data} routingKey={routingKey} onDone={onDone} onClose={onClose} />
      )}
    </Dialog>
  );
}

const isAudio = (features: readonly string[]) =>
  features.includes('speech') || features.includes('transcription');

function Fields({
  models,
  routingKey,
  onDone,
  onClose,
}: JobFormProps & { models: readonly Model[] }) {
  const [id, setId] = useState(models[0]?.id ?? '');
  const [input, setInput] = useState('');
  const [voice, setVoice] = useState('alloy');
  const [file, setFile] = useState<File>();
  const action = useAction();
  const model = models.find((one) => one.id === id);
  const isSpeech = model?.architecture.features.includes('speech') === true;
  const submit = () =>
    action.run(async () => {
      const body = isSpeech ? { model: id, input, voice } : formOf(id, file);
      await requestJson('/v1/jobs', { key: routingKey, method: 'POST', body });
      onDone();
    });
  return (
    <Form onSubmit={submit}>
      <SelectField
        label="Model"
        value={id}
        onValue={setId}
        options={models.map((one) => [one.id, one.id] as const)}
      />
      {isSpeech ? (
        <>
          <AreaField
            label="Text to speak"
            rows={8}
            value={input}
            onValue={setInput}
            hint={`${count(input.length)} of ${count(jobTextLengthMax)} characters`}
          />
          <TextField label="Voice" value={voice} onValue={setVoice} required />
        </>
      ) : (
        <FileField file={file} onFile={setFile} />
      )}
      <FormEnd submitLabel="Start" action={action} onClose={onClose}>
        {action.busy && <Busy text={isSpeech ? 'Sending the text…' : 'Uploading the file…'} />}
      </FormEnd>
    </Form>
  );
}

function formOf(model: string, file: File | undefined): FormData {
  if (!file) throw new Error('Choose an audio file.');
  const form = new FormData();
  form.set('model', model);
  form.set('file', file);
  return form;
}

interface FileFieldProps {
  readonly file: File | undefined;
  readonly onFile: (file: File | undefined) => void;
}

function FileField({ file, onFile }: FileFieldProps) {
  return (
    <div class="field">
      <label for="recording">Audio file</label>
      <input
        id="recording"
        type="file"
        accept="audio/*,video/mp4,video/webm"
        onChange={(event) => onFile(event.currentTarget.files?.[0])}
      />
      {file && <small class="hint">{bytes(file.size)}</small>}
    </div>
  );
}
