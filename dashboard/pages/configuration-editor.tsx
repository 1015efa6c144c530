import { requestData } from '../api.ts';
import { Dialog } from '../components/dialog.tsx';
import { Loading } from '../components/feedback.tsx';
import { JsonField } from '../components/field.tsx';
import { documentOf } from '../config-form.ts';
import { type ConfigKind, configPath } from '../config-kinds.ts';
import { useLoad } from '../load.ts';
import { useSession } from '../session.ts';
import type { ConfigObject } from '../shapes.ts';
import { type EditorProps, formParts, ObjectForm } from './configuration-form.tsx';
import { History } from './configuration-history.tsx';
import { PlanTenants } from './configuration-plan-tenants.tsx';
import { KeyRotation } from './configuration-rotation.tsx';

/** Edits an object of the store, replaces a built-in one, or shows one of the file. */
export function ConfigEditor(props: EditorProps) {
  const { kind, name, onClose } = props;
  const { key } = useSession();
  const path = configPath(kind, name);
  const loaded = useLoad(`edit ${path}`, async (signal) =>
    name === '' ? null : requestData<ConfigObject>(path, { key, signal }),
  );
  const { data: current } = loaded;
  const title = name === '' ? `Create ${kind.one}` : name;
  return (
    <Dialog title={title} variant="sheet" onClose={onClose}>
      {name !== '' && <Loading loaded={loaded} text={`Loading ${name}…`} />}
      {current?.owner === 'file' && <FileObject kind={kind} object={current} />}
      {current !== undefined && current?.owner !== 'file' && (
        <ObjectForm {...props} current={current} />
      )}
      {current?.owner === 'store' && kind.plural === 'providers' && (
        <KeyRotation provider={current} onDone={props.onDone} onClose={onClose} />
      )}
      {current && kind.plural === 'plans' && <PlanTenants plan={current.name} />}
      {current && <History kind={kind} current={current} onRestored={props.onDone} />}
    </Dialog>
  );
}

interface FileObjectProps {
  readonly kind: ConfigKind;
  readonly object: ConfigObject;
}

function FileObject({ kind, object }: FileObjectProps) {
  const Part = formParts[kind.plural]?.component;
  const document = documentOf(object);
  return (
    <>
      <p class="note">
        This {kind.noun} is set in <code>{object.source}</code>. Change it there, or remove it from
        the file to manage it here.
      </p>
      {Part && (
        <fieldset disabled class="form locked">
          <Part
            document={document}
            onDocument={() => undefined}
            secrets={new Map()}
            onSecrets={() => undefined}
            errorAt={() => undefined}
            current={object}
          />
        </fieldset>
      )}
      <JsonField
        label="All fields as JSON"
        value={JSON.stringify(document, null, 2)}
        onValue={() => undefined}
        readOnly
      />
    </>
  );
}
