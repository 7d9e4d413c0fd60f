// Try it: every model, from the first visit on.

import {useState} from 'preact/hooks';
import {getJson} from '../lib/api';
import {live} from '../lib/live';
import {Problem, Tabs, useLive, useLoad} from '../parts/common';
import {Chat, Text, type TextModel} from './try/chat';
import {Graph} from './try/graph';
import {Sessions} from './try/sessions';
import {TensorForm} from './try/tensors';

export function Try({model}: {model?: string}) {
  useLive();
  const text = useLoad<{data: TextModel[]}>((signal) => getJson('/v1/models', signal), []);
  const [tab, setTab] = useState('chat');
  const names = [...new Set(live.models.filter((m) => m.state === 'READY').map((m) => m.name))];
  // What is tried first is what is worth trying: text, then images, then the rest.
  const chosen = model ?? text.value?.data.find((m) => m.max_model_len)?.id ?? names[0];
  const of = text.value?.data.find((m) => m.id === chosen && m.max_model_len !== undefined);
  const known = !!text.value || !!text.error;
  return (
    <>
      <p class="row"><label>Model <select value={chosen} onChange={(e) => { location.hash = `#/try/${encodeURIComponent(e.currentTarget.value)}`; }}>
        {(chosen && !names.includes(chosen) ? [chosen, ...names] : names).map((name) => <option value={name}>{name}</option>)}</select></label>
        {chosen && <a href={`#/models/${encodeURIComponent(chosen)}`}>What it does now</a>}</p>
      {text.error && !live.models.length && <Problem text={text.error} />}
      {!chosen && known && <p class="empty">No model is ready.</p>}
      {chosen && of && <>
        <Tabs label="Ways to try it" tabs={[['chat', 'Chat'], ['text', 'Text'], ['sessions', 'Sessions'], ['graph', 'Evergreen graph'], ['tensors', 'Tensors']]} chosen={tab} choose={setTab} />
        {tab === 'chat' ? <Chat key={chosen} model={of} /> : tab === 'text' ? <Text key={chosen} model={of} /> : tab === 'sessions' ? <Sessions key={chosen} model={of} />
          : tab === 'graph' ? <Graph key={chosen} model={chosen} /> : <TensorForm key={chosen} model={chosen} />}
      </>}
      {chosen && !of && known && <TensorForm key={chosen} model={chosen} />}
    </>
  );
}
